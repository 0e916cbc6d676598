import assert from "node:assert/strict";
import { test } from "node:test";
import { claimSlot, MARK } from "../../tools/stack/instance.ts";
import { processesOf } from "../../tools/stack/processes.ts";
import { Service } from "../../tools/stack/service.ts";

/** Its program is no child of its own: so does one look that has started it this very moment. */
const WRAPPER = ["sh", "-c", '("$@" & echo there); exec sleep 1000', "sh"];

test("a program goes with a wrapper that seems to have none", { timeout: 20_000 }, async () => {
  await using instance = await claimSlot();
  const service = new Service({
    instance,
    name: "sleeper",
    program: "sleep",
    args: ["1000"],
    wrapper: WRAPPER,
  });
  await service.line(/there/, 10_000);
  await service.kill();
  assert.deepEqual(await processesOf(`${MARK}=${instance.dir}`), []);
});

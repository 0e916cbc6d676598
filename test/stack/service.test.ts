import assert from "node:assert/strict";
import { test } from "node:test";
import { claimSlot, MARK } from "../../tools/stack/instance.ts";
import { processesOf } from "../../tools/stack/processes.ts";
import { Service } from "../../tools/stack/service.ts";

/** A wrapper that has started its program this very moment looks as if it had no child. */
const NO_CHILD = '("$@" & echo there); exec sleep 1000';
/** The only child is one that comes before the program; the wrapper does not end with it. */
const EARLIER_CHILD = 'sleep 999 & echo there; wait; "$@"';

for (const [what, script] of [
  ["seems to have no child", NO_CHILD],
  ["has another child at the moment", EARLIER_CHILD],
] as const) {
  test(`SIGKILL ends a wrapper that ${what}, and its program`, { timeout: 20_000 }, () =>
    endsWithItsWrapper(["sh", "-c", script, "sh"]),
  );
}

async function endsWithItsWrapper(wrapper: readonly string[]): Promise<void> {
  await using instance = await claimSlot();
  const service = new Service({
    instance,
    name: "sleeper",
    program: "sleep",
    args: ["1000"],
    wrapper,
  });
  await service.line(/there/, 10_000);
  await service.kill();
  assert.deepEqual(await processesOf(`${MARK}=${instance.dir}`), []);
}

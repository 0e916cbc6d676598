import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { STATE_ROOT, reapDead } from "../../tools/stack/instance.ts";
import { NOTHING, leftovers } from "./leftovers.ts";

test("after kill -9 of a runner, the next start leaves nothing of its servers", async () => {
  const script = join(import.meta.dirname, "servers-runner.ts");
  const runner = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: runner.stdout })) {
    if (line === "servers run") break;
  }
  const instances = await instancesOf(runner.pid);
  assert.equal(instances.length, 2, "an S3 server and an API server");
  for (const name of instances) {
    const { processes, directories } = await leftovers(name);
    assert.notDeepEqual(processes, [], "the test looks in the right place");
    assert.deepEqual(directories, [name]);
  }
  const ended = once(runner, "exit");
  runner.kill("SIGKILL");
  await ended;
  await Promise.all([reapDead(), reapDead()]); // as two starts at the same moment do
  for (const name of instances) assert.deepEqual(await leftovers(name), NOTHING);
});

async function instancesOf(pid: number | undefined): Promise<string[]> {
  const found: string[] = [];
  for (const name of await readdir(STATE_ROOT)) {
    const owner = await readFile(join(STATE_ROOT, name, "owner.json"), "utf8").catch(() => "{}");
    if ((JSON.parse(owner) as { pid?: number }).pid === pid) found.push(name);
  }
  return found;
}

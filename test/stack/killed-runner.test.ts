import assert from "node:assert/strict";
import { mkdir, readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { run } from "../../tools/run.ts";
import { STATE_ROOT, reapDead } from "../../tools/stack/instance.ts";
import { NOTHING, leftovers } from "./leftovers.ts";
import { startRunner } from "./runner.ts";

test("after kill -9 of a runner, the next start leaves nothing of its servers", async () => {
  const runner = await startRunner("servers-runner.ts", "servers run");
  const instances = await instancesOf(runner.pid);
  assert.equal(instances.length, 2, "an S3 server and an API server");
  for (const name of instances) {
    const { processes, directories } = await leftovers(name);
    assert.notDeepEqual(processes, [], "the test looks in the right place");
    assert.deepEqual(directories, [name]);
    await mountBelow(name);
  }
  await runner.killHard();
  await Promise.all([reapDead(), reapDead()]); // as two starts at the same moment do
  for (const name of instances) assert.deepEqual(await leftovers(name), NOTHING);
});

/** As a filesystem whose server dies with the runner leaves it. */
async function mountBelow(instanceName: string): Promise<void> {
  const directory = join(STATE_ROOT, instanceName, "mnt");
  await mkdir(directory);
  await run("mount", ["-t", "tmpfs", "left-behind", directory]);
}

async function instancesOf(pid: number | undefined): Promise<string[]> {
  const found: string[] = [];
  for (const name of await readdir(STATE_ROOT)) {
    const owner = await readFile(join(STATE_ROOT, name, "owner.json"), "utf8").catch(() => "{}");
    if ((JSON.parse(owner) as { pid?: number }).pid === pid) found.push(name);
  }
  return found;
}

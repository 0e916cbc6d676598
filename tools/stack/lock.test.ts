import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { withLock } from "./lock.ts";

const name = `s3csi-lock-test-${process.pid}`;

test("work under one lock never overlaps, and a failure frees it", async () => {
  let inside = 0;
  const work = async (fails: boolean) => {
    inside += 1;
    assert.equal(inside, 1);
    for (let turns = 0; turns < 5; turns += 1) await turn();
    inside -= 1;
    if (fails) throw new Error("as planned");
  };
  const all = Array.from({ length: 12 }, (_, index) => withLock(name, () => work(index % 3 === 0)));
  const results = await Promise.allSettled(all);
  assert.equal(results.filter(({ status }) => status === "fulfilled").length, 8);
});

test("the lock of a process killed with -9 is free", async () => {
  const lock = join(import.meta.dirname, "lock.ts");
  const hold = `
    import { withLock } from ${JSON.stringify(lock)};
    await withLock(${JSON.stringify(name)}, async () => {
      console.log("held");
      await new Promise(() => {});
    });`;
  const args = ["--input-type=module-typescript", "-e", hold];
  const holder = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  await once(holder.stdout, "data");
  const taken = withLock(name, async () => "mine");
  holder.kill("SIGKILL");
  assert.equal(await taken, "mine");
});

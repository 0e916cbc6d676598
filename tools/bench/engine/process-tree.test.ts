import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { familyOf, processOf, useOf } from "./process-tree.ts";

test("a process counts its own ticks and those of children that were waited for", () => {
  const fields = "S 7 1 1 0 -1 4194560 1 2 3 4 100 50 20 30 20 0".split(" ");
  assert.deepEqual(processOf(9, fields), { pid: 9, parent: 7, cpuSeconds: 2 });
});

test("a family is a process and all below it, nobody else", () => {
  const all = [
    { pid: 4, parent: 3 },
    { pid: 1, parent: 0 },
    { pid: 3, parent: 2 },
    { pid: 2, parent: 1 },
    { pid: 5, parent: 1 },
  ];
  assert.deepEqual(
    familyOf(2, all).map(({ pid }) => pid),
    [2, 3, 4],
  );
  assert.deepEqual(familyOf(9, all), []);
});

test("the use of a live process names its memory", async () => {
  const child = spawn("sh", ["-c", "echo; read line"], { stdio: ["pipe", "pipe", "inherit"] });
  await once(child.stdout, "data");
  const use = await useOf(child.pid ?? 0);
  assert.equal(use.rssMb.length, 1);
  assert((use.peakRssMb[0] ?? 0) >= (use.rssMb[0] ?? 0) && (use.rssMb[0] ?? 0) > 0);
  child.stdin.end();
  await once(child, "exit");
});

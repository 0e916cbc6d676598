import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { countOomKills } from "./oom-kills.ts";

const V1 = "5:cpu:/kubepods/pod1/c1\n4:memory:/kubepods/pod1/c1\n";
const V2 = "0::/kubepods/pod1/c1\n";
const CONTAINER_V2 = "0::/\n";

// prettier-ignore
const cases: [what: string, self: string, files: Record<string, string>, kills: number][] = [
  ["on a host with v1",                     V1,           { "memory/kubepods/pod1/c1/memory.oom_control": "under_oom 0\noom_kill 3\n", "memory/memory.oom_control": "oom_kill 9\n" }, 3],
  ["in a container with v1",                V1,           { "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n" }, 2],
  ["on a host with v2",                     V2,           { "kubepods/pod1/c1/memory.events": "oom 1\noom_kill 1\noom_group_kill 0\n" }, 1],
  ["in a container with v2",                CONTAINER_V2, { "memory.events": "low 0\noom 7\noom_kill 5\n" }, 5],
  ["in the root of v2, which counts none",  CONTAINER_V2, {}, 0],
  ["by a kernel that does not count them",  V1,           { "memory/kubepods/pod1/c1/memory.oom_control": "under_oom 0\n" }, 0],
];
for (const [what, self, files, kills] of cases) {
  test(`kills for want of memory are counted ${what}`, () => {
    const root = mkdtempSync(join(tmpdir(), "s3csi-cgroup-"));
    try {
      writeFileSync(join(root, "self"), self);
      for (const [name, text] of Object.entries(files)) {
        const path = join(root, name);
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, text);
      }
      assert.equal(countOomKills(join(root, "self"), root), kills);
    } finally {
      rmSync(root, { recursive: true });
    }
  });
}

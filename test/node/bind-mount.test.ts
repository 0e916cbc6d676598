import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { bindMount } from "../../src/sys/bind-mount.ts";
import { unmount } from "../../src/sys/fuse-mount.ts";
import { mountAt, readMounts } from "../../src/sys/mount-info.ts";
import { openDescriptors } from "./open-descriptors.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

/** A shared mount tree as a node has it, with a source and a target in it. */
async function sharedTree() {
  const dir = await temporaryDirectory();
  const [root, source, target] = [dir.path, join(dir.path, "source"), join(dir.path, "target")];
  execFileSync("mount", ["-t", "tmpfs", "tmpfs", root]);
  execFileSync("mount", ["--make-shared", root]);
  mkdirSync(source);
  mkdirSync(target);
  execFileSync("mount", ["-t", "tmpfs", "source", source]);
  return { source, target, [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose]() };
}

/** Another mount namespace that gets what is mounted here, as the host gets it from the driver. */
async function otherNamespace() {
  const child = spawn("unshare", ["-m", "--propagation", "slave", "sh", "-c", "echo in; cat"]);
  const gone = once(child, "exit");
  await once(child.stdout, "data");
  const pid = child.pid ?? -1;
  return {
    pid,
    writes(path: string): boolean {
      try {
        execFileSync("nsenter", ["-t", String(pid), "-m", "touch", path], { stdio: "ignore" });
        return true;
      } catch {
        return false;
      }
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await gone;
    },
  };
}

for (const readOnly of [true, false]) {
  test(`a ${readOnly ? "read-only" : "writable"} bind is so in every namespace`, async () => {
    await using tree = await sharedTree();
    await using early = await otherNamespace(); // it sees the bind by propagation
    bindMount(tree.source, tree.target, { readOnly });
    await using late = await otherNamespace(); // it has a copy from the start
    const file = join(tree.target, "file");
    for (const pid of [process.pid, early.pid, late.pid]) {
      assert.equal(mountAt(readMounts(pid), tree.target)?.readOnly, readOnly, `in ${pid}`);
    }
    assert.deepEqual([early.writes(file), late.writes(file)], [!readOnly, !readOnly]);
    if (readOnly) assert.throws(() => writeFileSync(file, ""), { code: "EROFS" });
    assert.equal(early.writes(join(tree.source, "file")), true, "the source stays writable");
    unmount(tree.target, { detach: false });
    assert.equal(mountAt(readMounts(early.pid), tree.target), undefined, "gone there too");
  });
}

test("a second bind of one source may differ from the first", async () => {
  await using tree = await sharedTree();
  const other = `${tree.target}-2`;
  mkdirSync(other);
  bindMount(tree.source, tree.target, { readOnly: true });
  bindMount(tree.source, other, { readOnly: false });
  writeFileSync(join(other, "file"), "");
  assert.throws(() => writeFileSync(join(tree.target, "file"), ""), { code: "EROFS" });
  const [one, two] = [tree.target, other].map((path) => mountAt(readMounts(), path));
  assert.equal(one?.device, two?.device);
});

test("links are not followed, neither to bind nor to unmount; no descriptor stays", async () => {
  await using tree = await sharedTree();
  const [elsewhere, link] = [`${tree.target}-2`, `${tree.target}-link`];
  mkdirSync(elsewhere);
  symlinkSync(elsewhere, link);
  const before = openDescriptors();
  assert.throws(() => bindMount(tree.source, link, { readOnly: false }));
  assert.equal(mountAt(readMounts(), elsewhere), undefined);
  bindMount(tree.source, elsewhere, { readOnly: false });
  assert.throws(() => unmount(link, { detach: true }), { code: "EINVAL" });
  assert.notEqual(mountAt(readMounts(), elsewhere), undefined);
  assert.throws(() => bindMount("/no/such", elsewhere, { readOnly: true }), { code: "ENOENT" });
  assert.deepEqual(openDescriptors(), before);
});

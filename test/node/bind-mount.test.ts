import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import type { Log } from "../../src/base/log.ts";
import { createLog } from "../../src/base/pino-log.ts";
import { SourceDirectories } from "../../src/node/source-directory.ts";
import { bindMount } from "../../src/sys/bind-mount.ts";
import { unmount } from "../../src/sys/fuse-mount.ts";
import { mountAt, readMounts } from "../../src/sys/mount-info.ts";
import type { KillOrder } from "./kill-at-call.ts";
import { openDescriptors } from "./open-descriptors.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const OLD_KERNEL = join(import.meta.dirname, "old-kernel.ts");
const BIND_ONCE = join(import.meta.dirname, "bind-once.ts");
const KILL_AT_CALL = join(import.meta.dirname, "kill-at-call.ts");
const SYS_MOUNT_SETATTR = 442;

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
    mountsBelow: (dir: string) =>
      readMounts(pid).flatMap(({ mountPoint: at }) => (at.startsWith(`${dir}/`) ? [at] : [])),
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

type Bind = (source: string, target: string, readOnly: boolean) => void;

/** By a process whose kernel answers ENOSYS to mount_setattr, as before Linux 5.12. */
const bindOnOldKernel: Bind = (source, target, readOnly) => {
  const words = ["--import", OLD_KERNEL, BIND_ONCE, source, target, readOnly ? "ro" : "rw"];
  const env = { ...process.env, OLD_KERNEL_LACKS: String(SYS_MOUNT_SETATTR) };
  execFileSync(process.execPath, words, { env });
};
const KERNELS: [name: string, bind: Bind][] = [
  ["here", (source, target, readOnly) => bindMount(source, target, { readOnly })],
  ["before Linux 5.12", bindOnOldKernel],
];

for (const [kernel, bind] of KERNELS) {
  for (const readOnly of [true, false]) {
    const mode = readOnly ? "read-only" : "writable";
    test(`a ${mode} bind is so in every namespace, ${kernel}`, async () => {
      await using tree = await sharedTree();
      await using early = await otherNamespace(); // it sees the bind by propagation
      bind(tree.source, tree.target, readOnly);
      await using late = await otherNamespace(); // it has a copy from the start
      const file = join(tree.target, "file");
      for (const pid of [process.pid, early.pid, late.pid]) {
        assert.equal(mountAt(readMounts(pid), tree.target)?.readOnly, readOnly, `in ${pid}`);
      }
      assert.deepEqual([early.writes(file), late.writes(file)], [!readOnly, !readOnly]);
      if (readOnly) assert.throws(() => writeFileSync(file, ""), { code: "EROFS" });
      assert.equal(early.writes(join(tree.source, "file")), true, "the source stays writable");
      unmount(tree.target, { detach: false });
      const root = dirname(tree.source);
      assert.deepEqual(early.mountsBelow(root), [tree.source], "gone there, and nothing is left");
      assert.deepEqual(readdirSync(root).toSorted(), ["source", "target"]);
    });
  }
}

/** Each step of the read-only fallback, by the system call that comes next or was the last. */
const KILLED_AT: [step: string, order: KillOrder][] = [
  ["before its tmpfs is mounted", { when: "before", call: "^mount tmpfs" }],
  ["with a tmpfs that is still shared", { when: "after", call: "^mount tmpfs" }],
  ["with a private tmpfs", { when: "after", call: "^mount none \\S+ +262144" }],
  ["with a copy in it", { when: "after", call: "^mount none \\S+/copy" }],
];

const ignore = () => undefined;

for (const [step, order] of KILLED_AT) {
  test(`a read-only bind that is killed ${step} leaves nothing after the next start`, async () => {
    await using tree = await sharedTree();
    await using host = await otherNamespace();
    const root = dirname(tree.source);
    await using orders = await temporaryDirectory();
    const file = join(orders.path, "order");
    writeFileSync(file, JSON.stringify(order));
    const words = ["--import", KILL_AT_CALL, "--import", OLD_KERNEL, BIND_ONCE];
    const env = { ...process.env, OLD_KERNEL_LACKS: String(SYS_MOUNT_SETATTR), KILL_ORDER: file };
    // In a namespace of its own that ends with it, as a container's does.
    const bind = [process.execPath, ...words, tree.source, tree.target, "ro"];
    const flags = ["-m", "--propagation", "unchanged"];
    const { signal, stderr } = spawnSync("unshare", [...flags, ...bind], { env });
    assert.equal(signal, "SIGKILL", String(stderr));
    const left = readdirSync(root).filter((name) => name.startsWith("."));
    assert.equal(left.length, 1, "the test kills it half-way");

    const warnings: object[] = [];
    const warn = (facts: object | string) => void warnings.push(Object(facts));
    const log: Log = { debug: ignore, info: ignore, warn, error: warn };
    const directories = new SourceDirectories(root, log);
    assert.deepEqual(directories.ids().toSorted(), ["source", "target"]);
    assert.deepEqual(readdirSync(root).toSorted(), ["source", "target"]);
    assert.deepEqual(host.mountsBelow(root), [tree.source]);
    assert.deepEqual(warnings, []);
  });
}

test("a directory whose name begins with a dot is no mount", async () => {
  await using dir = await temporaryDirectory();
  const directories = new SourceDirectories(dir.path, createLog("error", {}));
  mkdirSync(join(dir.path, "mp-1"));
  mkdirSync(join(dir.path, ".read-only-abcdef"));
  assert.deepEqual(directories.ids(), ["mp-1"]);
});

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

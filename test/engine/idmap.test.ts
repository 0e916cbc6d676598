import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, writeFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { release, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { bind, checked } from "../../src/sys/libc.ts";
import { unmount } from "../../src/sys/fuse-mount.ts";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const FIRST_UID = 100_000;
const AT_FDCWD = -100;
const AT_EMPTY_PATH = 0x1000;
const OPEN_TREE_CLONE = 1;
const MOUNT_ATTR_IDMAP = 0x100000n;
const MOVE_MOUNT_F_EMPTY_PATH = 4;

const openTree = bind("int open_tree(int dfd, const char *path, unsigned int flags)");
const moveMount = bind(
  "int move_mount(int from, const char *fromPath, int to, const char *toPath, unsigned int flags)",
);
const mountSetattr = bind(
  "int mount_setattr(int dfd, const char *path, unsigned int flags, void *attr, size_t size)",
);

/** A user namespace as of a pod with hostUsers: false: its root is somebody else outside. */
async function userNamespace() {
  const holder = spawn("unshare", ["--user", "sleep", "60"], { stdio: "ignore" });
  const path = `/proc/${holder.pid}/ns/user`;
  const own = await fs.readlink("/proc/self/ns/user");
  while ((await fs.readlink(path)) === own) await delay(10);
  for (const map of ["uid_map", "gid_map"]) {
    writeFileSync(`/proc/${holder.pid}/${map}`, `0 ${FIRST_UID} 65536`);
  }
  const fd = openSync(path, "r");
  holder.kill();
  await once(holder, "exit");
  return fd;
}

/** What a container runtime does with a volume of such a pod. */
function mountMapped(source: string, target: string, userns: number): void {
  const tree = checked("open_tree", openTree(AT_FDCWD, source, OPEN_TREE_CLONE), source);
  try {
    const attr = Buffer.alloc(32); // struct mount_attr: attr_set, attr_clr, propagation, userns_fd
    attr.writeBigUInt64LE(MOUNT_ATTR_IDMAP, 0);
    attr.writeBigUInt64LE(BigInt(userns), 24);
    checked("mount_setattr", mountSetattr(tree, "", AT_EMPTY_PATH, attr, attr.length), source);
    checked("move_mount", moveMount(tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH), target);
  } finally {
    closeSync(tree);
  }
}

const [major = 0, minor = 0] = release().split(".").map(Number);
const skip = major * 100 + minor < 612 && "the kernel has it from 6.12 on";

test(
  "a pod with a user namespace sees its own owners, where everybody is let in",
  { skip },
  async () => {
    await using bucket = await TestBucket.start();
    await bucket.put("file", "content");
    await using view = await fs.mkdtempDisposable(join(tmpdir(), "s3csi-idmap-"));
    const userns = await userNamespace();
    try {
      const ids = ["--uid", "0", "--gid", "0"];
      {
        await using mount = await mountBucket(bucket, ["--allow-other", ...ids]);
        mountMapped(mount.dir, view.path, userns);
        try {
          const { uid, gid } = await fs.stat(join(view.path, "file"));
          assert.deepEqual([uid, gid], [FIRST_UID, FIRST_UID]);
          const who = [
            "--reuid",
            String(FIRST_UID),
            "--regid",
            String(FIRST_UID),
            "--clear-groups",
          ];
          await run("setpriv", [...who, "sh", "-c", `cat ${view.path}/file > ${view.path}/copy`]);
          assert.equal((await bucket.get("copy")).toString(), "content");
        } finally {
          unmount(view.path, { detach: true });
        }
      }
      await using closed = await mountBucket(bucket, ["--allow-root", ...ids]);
      assert.throws(() => mountMapped(closed.dir, view.path, userns), /EINVAL/);
    } finally {
      closeSync(userns);
    }
  },
);

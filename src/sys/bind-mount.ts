import { closeSync } from "node:fs";
import { bind, checked } from "./libc.ts";

// The same numbers on every architecture that Linux has had since these calls came.
const SYS_OPEN_TREE = 428;
const SYS_MOVE_MOUNT = 429;
const SYS_MOUNT_SETATTR = 442;
const AT_FDCWD = -100;
const AT_EMPTY_PATH = 0x1000;
const AT_SYMLINK_NOFOLLOW = 0x100;
const OPEN_TREE_CLONE = 0x1;
const OPEN_TREE_CLOEXEC = 0o2000000;
const MOVE_MOUNT_F_EMPTY_PATH = 0x4;
const MOUNT_ATTR_RDONLY = 0x1n;
const MOUNT_ATTR_BYTES = 32;

const openTree = bind("long syscall(long number, int at, const char *path, unsigned int flags)");
const setAttributes = bind(
  "long syscall(long number, int at, const char *path, unsigned int flags, const void *attr, " +
    "size_t size)",
);
const moveMount = bind(
  "long syscall(long number, int fromAt, const char *from, int toAt, const char *to, " +
    "unsigned int flags)",
);

/**
 * Binds a mount to another directory. Read-only is set before the copy is attached: a remount
 * afterwards would change this namespace's copy only, not the one already propagated to the host.
 */
export function bindMount(
  source: string,
  target: string,
  { readOnly }: { readonly readOnly: boolean },
): void {
  const flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW;
  const tree = checked("open_tree", openTree(SYS_OPEN_TREE, AT_FDCWD, source, flags), source);
  try {
    if (readOnly) {
      const attributes = Buffer.alloc(MOUNT_ATTR_BYTES);
      attributes.writeBigUInt64LE(MOUNT_ATTR_RDONLY, 0);
      const size = attributes.length;
      const set = setAttributes(SYS_MOUNT_SETATTR, tree, "", AT_EMPTY_PATH, attributes, size);
      checked("mount_setattr", set, source);
    }
    const moved = moveMount(SYS_MOVE_MOUNT, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH);
    checked("move_mount", moved, target);
  } finally {
    closeSync(tree);
  }
}

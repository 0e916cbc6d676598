import { closeSync, mkdirSync, mkdtempSync, readdirSync, rmdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { unmount } from "./fuse-mount.ts";
import { bind, checked, SystemError } from "./libc.ts";
import { mountAt, readMounts } from "./mount-info.ts";

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
const MS_RDONLY = 0x1;
const MS_NOSUID = 0x2;
const MS_NODEV = 0x4;
const MS_REMOUNT = 0x20;
const MS_NOATIME = 0x400;
const MS_BIND = 0x1000;
const MS_PRIVATE = 0x40000;
/** The stage is made beside the source: the root of the driver's container is read-only. */
const STAGE_PREFIX = ".read-only-";

const cMount = bind(
  "int mount(const char *source, const char *target, const char *type, unsigned long flags, " +
    "const char *data)",
);
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
  const tree = readOnly ? readOnlyCopyOf(source) : copyOf(source);
  try {
    const moved = moveMount(SYS_MOVE_MOUNT, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH);
    checked("move_mount", moved, target);
  } finally {
    closeSync(tree);
  }
}

/** A copy that is attached nowhere yet, by descriptor. */
function copyOf(source: string): number {
  const flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW;
  return checked("open_tree", openTree(SYS_OPEN_TREE, AT_FDCWD, source, flags), source);
}

function readOnlyCopyOf(source: string): number {
  const tree = copyOf(source);
  const attributes = Buffer.alloc(MOUNT_ATTR_BYTES);
  attributes.writeBigUInt64LE(MOUNT_ATTR_RDONLY, 0);
  const size = attributes.length;
  try {
    const set = setAttributes(SYS_MOUNT_SETATTR, tree, "", AT_EMPTY_PATH, attributes, size);
    checked("mount_setattr", set, source);
    return tree;
  } catch (error) {
    closeSync(tree);
    if (!(error instanceof SystemError && error.code === "ENOSYS")) throw error;
    return stagedReadOnlyCopyOf(source);
  }
}

/**
 * Before Linux 5.12 only an attached mount can be made read-only. So it is attached where nothing
 * is propagated, below a private mount, and copied from there: a copy has its original's flags.
 */
function stagedReadOnlyCopyOf(source: string): number {
  using undo = new DisposableStack();
  const stage = mkdtempSync(join(dirname(source), STAGE_PREFIX));
  undo.defer(() => rmdirSync(stage));
  mount("tmpfs", stage, "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,mode=700");
  undo.defer(() => unmount(stage, { detach: true }));
  mount("none", stage, null, MS_PRIVATE, null);
  const copy = join(stage, "copy");
  mkdirSync(copy);
  mount(source, copy, null, MS_BIND, null);
  undo.defer(() => unmount(copy, { detach: true }));
  const flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOATIME;
  mount("none", copy, null, flags, null);
  return copyOf(copy);
}

/**
 * Removes the stages that a killed process has left in a directory. Where the kill came before the
 * stage was made private, or ended a whole mount namespace, the stage's tmpfs is still mounted in
 * this namespace and on the host: to detach it here detaches it there.
 */
export function removeStages(dir: string): void {
  for (const name of readdirSync(dir)) {
    if (!name.startsWith(STAGE_PREFIX)) continue;
    const stage = join(dir, name);
    while (mountAt(readMounts(), stage) !== undefined) unmount(stage, { detach: true });
    rmdirSync(stage);
  }
}

function mount(
  source: string,
  target: string,
  type: string | null,
  flags: number,
  data: string | null,
): void {
  checked("mount", cMount(source, target, type, flags, data), target);
}

import { constants, openSync } from "node:fs";
import { bind, checked, O_CLOEXEC } from "./libc.ts";

const MS_RDONLY = 0x1;
const MS_NOSUID = 0x2;
const MS_NODEV = 0x4;
const MS_NOATIME = 0x400;
const MNT_DETACH = 0x2;
const UMOUNT_NOFOLLOW = 0x8;

const mount = bind(
  "int mount(const char *source, const char *target, const char *type, unsigned long flags, " +
    "const char *data)",
);
const umount2 = bind("int umount2(const char *target, int flags)");

export const FUSE_FILESYSTEM_TYPE = "fuse.s3csi";

export interface FuseMountOptions {
  readonly readOnly: boolean;
  /** The first column of /proc/mounts: who looks there should learn which volume it is. */
  readonly source: string;
}

/** Opens a fresh FUSE connection's descriptor. The connection lives while a copy is open. */
export function openFuseDevice(): number {
  return openSync("/dev/fuse", constants.O_RDWR | O_CLOEXEC);
}

/** Puts the connection behind `fd` at a directory. Needs CAP_SYS_ADMIN. */
export function mountFuse(fd: number, targetDir: string, options: FuseMountOptions): void {
  const flags = MS_NOSUID | MS_NODEV | MS_NOATIME | (options.readOnly ? MS_RDONLY : 0);
  // Who may enter is decided by the engine (--allow-root, --allow-other); modes by the kernel.
  const data = `fd=${fd},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other`;
  const result = mount(options.source, targetDir, FUSE_FILESYSTEM_TYPE, flags, data);
  checked("mount", result, targetDir);
}

/** Without `detach` it fails with EBUSY while files are open; with it, it ends when they close. */
export function unmount(targetDir: string, { detach }: { readonly detach: boolean }): void {
  const flags = UMOUNT_NOFOLLOW | (detach ? MNT_DETACH : 0);
  checked("umount2", umount2(targetDir, flags), targetDir);
}

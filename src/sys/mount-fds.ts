import { closeSync } from "node:fs";
import { createMemfd } from "./memfd.ts";

/** What a mount is made of, in the order in which it is handed from process to process. */
export const MOUNT_FDS = ["fuse", "slots", "journal", "spool"] as const;
export type MountFds = Readonly<Record<(typeof MOUNT_FDS)[number], number>>;

/** Empty memory for a new connection: the engine gives it its size and its form. */
export function createMountMemory(): Omit<MountFds, "fuse"> {
  const made: number[] = [];
  try {
    const create = (name: string) => {
      const fd = createMemfd(`s3csi-${name}`, 0);
      made.push(fd);
      return fd;
    };
    return { slots: create("slots"), journal: create("journal"), spool: create("spool") };
  } catch (error) {
    closeAll(made);
    throw error;
  }
}

/** As they travel. */
export function listOf(fds: MountFds): number[] {
  return MOUNT_FDS.map((name) => fds[name]);
}

/** As they came; undefined when there are too few or too many. */
export function mountFdsOf(list: readonly number[]): MountFds | undefined {
  const [fuse, slots, journal, spool] = list;
  if (fuse === undefined || slots === undefined || journal === undefined) return undefined;
  if (spool === undefined || list.length !== MOUNT_FDS.length) return undefined;
  return { fuse, slots, journal, spool };
}

export function closeMountFds(fds: MountFds): void {
  closeAll(listOf(fds));
}

export function closeAll(fds: readonly number[]): void {
  for (const fd of fds) closeSync(fd);
}

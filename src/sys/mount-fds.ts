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
    for (const fd of made) closeSync(fd);
    throw error;
  }
}

export function closeMountFds(fds: MountFds): void {
  for (const name of MOUNT_FDS) closeSync(fds[name]);
}

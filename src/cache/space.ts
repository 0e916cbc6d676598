import { statfs } from "node:fs/promises";

/** How much of a disk may be used. */
export interface Space {
  /** Beyond which even an empty cache could not go. */
  readonly limitBytes: number;
  /** Whether `wantedBytes` more may be written when `usedBytes` are taken already. */
  fits(usedBytes: number, wantedBytes: number): Promise<boolean>;
}

export function limitedSpace(limitBytes: number): Space {
  return {
    limitBytes,
    fits: async (usedBytes, wantedBytes) => usedBytes + wantedBytes <= limitBytes,
  };
}

/** As much as there is, as long as this share of the file system stays free for others. */
export function spaceBesides(directory: string, freeShare: number): Space {
  return {
    limitBytes: Number.POSITIVE_INFINITY,
    async fits(_, wantedBytes) {
      const { bavail, blocks, bsize } = await statfs(directory);
      return bavail * bsize - wantedBytes >= blocks * bsize * freeShare;
    },
  };
}

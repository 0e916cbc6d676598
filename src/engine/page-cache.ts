/**
 * What the kernel keeps of files, beyond what it asked for. Both settle when the kernel has acted
 * on it; what it does not know it passes over.
 */
export interface PageCache {
  /** The whole file, as if it had been read. */
  store(nodeid: number, bytes: Uint8Array): Promise<void>;
  drop(nodeid: number): Promise<void>;
}

export const NO_PAGE_CACHE: PageCache = {
  store: () => Promise.resolve(),
  drop: () => Promise.resolve(),
};

import type { ObjectReader } from "../s3/object-store.ts";
import type { Allocate } from "./buffer-pool.ts";
import type { PageCache } from "./page-cache.ts";

/** What is around an engine and makes it faster: it works without any of it. */
export interface Surroundings {
  /** For contents that may be nearer than the store. */
  readonly reader?: ObjectReader;
  readonly pages?: PageCache;
  /** For buffers of megabytes. */
  readonly allocate?: Allocate;
  /** An upload has failed that an earlier engine has left, so that no caller waits for it. */
  readonly onLostUpload?: (error: unknown) => void;
}

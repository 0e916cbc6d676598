/** The request that a write comes with. */
export interface WriteRequest {
  /** The FUSE request's `unique`: recognises the request when it is sent again. */
  readonly unique?: string | undefined;
  /** Aborts when the caller was interrupted and waits no longer. */
  readonly leaving?: AbortSignal | undefined;
}

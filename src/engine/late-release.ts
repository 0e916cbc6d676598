import { setTimeout as sleep } from "node:timers/promises";
import { within } from "../base/within.ts";
import type { Inode } from "./inode.ts";
import type { PendingReads } from "./pending-reads.ts";
import { PosixFailure } from "./posix-failure.ts";

/** A RELEASE that nothing keeps back arrives far earlier. */
const LATE_RELEASE_MS = 1_000;

export interface LateReleaseDeps {
  readonly reads: PendingReads;
  /** However many READs are pending, no caller waits longer. */
  readonly requestLimitMs: number;
}

/**
 * Waits a second at most for a RELEASE that may be on its way: for a request during which the
 * kernel locks the file and its directory, so that writers and other names there wait as long.
 */
export async function releaseSoon(released: Promise<void>, leaving: AbortSignal): Promise<void> {
  const signal = AbortSignal.any([AbortSignal.timeout(LATE_RELEASE_MS), leaving]);
  await within(released, signal, () => new Error("no RELEASE")).catch(() => undefined);
}

/**
 * Waits for a RELEASE that may be on its way: close(2) does not wait for it, and the next open(2)
 * may come first. A file that is still open gets none, so the wait is short: it ends a second
 * after the last READ that keeps the RELEASE back. EINTR when the caller leaves before.
 */
export async function lateRelease(
  inode: Inode,
  released: Promise<void>,
  { reads, requestLimitMs }: LateReleaseDeps,
  leaving?: AbortSignal,
): Promise<void> {
  const told = new AbortController();
  void released.then(() => told.abort());
  const limits = [told.signal, AbortSignal.timeout(requestLimitMs)];
  const signal = AbortSignal.any(leaving === undefined ? limits : [...limits, leaving]);
  do {
    await reads.ended(inode, signal);
    await sleep(LATE_RELEASE_MS, undefined, { signal }).catch(() => undefined);
  } while (!signal.aborted && reads.fillTheQueue);
  if (leaving?.aborted !== true) return;
  throw new PosixFailure("EINTR", `${inode.path}: interrupted while it is open for others`);
}

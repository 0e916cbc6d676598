/** S3 refuses signatures by clocks that are further off. */
const SKEW_MAX_MS = 15 * 60_000;

/**
 * The clock of S3 as far as it is known, never taken for later than it is: uploads that
 * began by that clock after some time are looked for, and none of them may be missed.
 */
export class ServerClock {
  /** The last date that S3 has told, and performance.now() when it came. */
  #told: { readonly dateMs: number; readonly atMs: number } | undefined;

  /** `signedMs`: the time in the signature that S3 has accepted; undefined without signatures. */
  note(headers: Pick<ReadonlyMap<string, string>, "get">, signedMs: number | undefined): void {
    if (headers.get("age") !== undefined) return; // from a cache
    const dateMs = Date.parse(headers.get("date") ?? "");
    const isOdd = signedMs !== undefined && Math.abs(dateMs - signedMs) > SKEW_MAX_MS;
    if (Number.isNaN(dateMs) || isOdd) return;
    this.#told = { dateMs, atMs: performance.now() };
  }

  /** A time that the clock of S3 has reached. `ourMs`: by the clock that signatures have. */
  earliestMs(ourMs: number): number {
    if (this.#told === undefined) return ourMs - SKEW_MAX_MS;
    const { dateMs, atMs } = this.#told;
    // A proxy may write dates of its own, by a clock that is ahead.
    return Math.min(ourMs, dateMs + performance.now() - atMs);
  }
}

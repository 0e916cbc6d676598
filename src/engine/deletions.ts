import { within } from "../base/within.ts";
import { PosixFailure } from "./posix-failure.ts";

/**
 * Deletions that S3 was asked for and has not answered, by path. A killed rm(1) gives back the
 * kernel's locks before that, and its DELETE would hit what is written under the name meanwhile.
 * So whatever writes there waits until none is under way, and checks that in the very turn of the
 * event loop in which it begins.
 */
export class Deletions {
  /** The end of the last deletion of each path. */
  readonly #ends = new Map<string, Promise<void>>();

  isUnderWay(path: string): boolean {
    return this.#ends.has(path);
  }

  /** The deletion is under way from this call on, but it begins after those of the same path. */
  run(path: string, work: () => Promise<void>): Promise<void> {
    const former = this.#ends.get(path) ?? Promise.resolve();
    const result = former.then(work);
    const end: Promise<void> = result
      .catch(() => undefined)
      .then(() => {
        if (this.#ends.get(path) === end) this.#ends.delete(path);
      });
    this.#ends.set(path, end);
    return result;
  }

  /**
   * Resolves when the deletions of the path have ended, well or not. Another one may have begun
   * by then: ask isUnderWay() again. EINTR when the caller leaves before.
   */
  async ended(path: string, leaving?: AbortSignal): Promise<void> {
    const end = this.#ends.get(path) ?? Promise.resolve();
    if (leaving === undefined) return end;
    await within(end, leaving, () => {
      return new PosixFailure("EINTR", `${path}: interrupted while it is being deleted`);
    });
  }

  /** Resolves when those that are under way now have ended. */
  async finish(): Promise<void> {
    await Promise.all(this.#ends.values());
  }
}

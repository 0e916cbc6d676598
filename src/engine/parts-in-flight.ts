import { within } from "../base/within.ts";

/** Parts of an object on their way to S3. */
export class PartsInFlight {
  readonly #parts = new Set<Promise<unknown>>();

  get count(): number {
    return this.#parts.size;
  }

  /** Until it has arrived, or failed: whoever wants to know that has to ask itself. */
  add(part: Promise<unknown>): void {
    const ended: Promise<unknown> = part
      .catch(() => undefined)
      .finally(() => this.#parts.delete(ended));
    this.#parts.add(ended);
  }

  /** When one of them has ended, or somebody does not want to wait any more. */
  async next(leaving?: AbortSignal): Promise<void> {
    const ended = Promise.race(this.#parts);
    if (leaving === undefined) await ended;
    else await within(ended, leaving, () => new Error("left")).catch(() => undefined);
  }
}

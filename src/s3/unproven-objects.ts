import { PermanentFailure } from "./retry.ts";
import { UnprovenFailure } from "./upload-integrity.ts";

/** The objects that one PUT has left in the bucket, by attempts whose bytes S3 did not verify. */
export class UnprovenObjects {
  readonly #key: string;
  readonly #etags = new Set<string>();
  #failure: UnprovenFailure | undefined;
  #isReplaced = false;

  constructor(key: string) {
    this.#key = key;
  }

  /** The current object may have other bytes than were sent. */
  get isLeft(): boolean {
    return this.#failure !== undefined && !this.#isReplaced;
  }

  /** Passes a failure of the check on. */
  noteFailure(etag: string, check: () => void): void {
    try {
      check();
    } catch (error) {
      if (error instanceof UnprovenFailure) {
        this.#etags.add(etag);
        this.#failure = error;
      }
      throw error;
    }
  }

  /**
   * Whether the PUT must be repeated although there is an object. Once an attempt was stored, an
   * object of others is newer than that attempt: to replace it would undo their PUT.
   */
  needsRepeat(etag: string, isOurs: boolean): boolean {
    if (isOurs) return this.#etags.has(etag) || this.#etags.has("");
    if (this.#failure === undefined) return true;
    this.#isReplaced = true;
    const { message } = this.#failure;
    throw new PermanentFailure(
      `PUT ${this.#key}: ${message}; another client has replaced it since`,
    );
  }
}

const WINDOW_MS = 1_000;
/** An engine takes a tenth of a second to start: an honest mounter never has so much to say. */
const NOTES_PER_WINDOW_MAX = 100;

/** How much a peer may say unasked. */
export class NoteLimit {
  #windowStartMs = 0;
  #count = 0;

  /** Counts one more. */
  isOver(nowMs: number): boolean {
    if (nowMs - this.#windowStartMs > WINDOW_MS) {
      this.#windowStartMs = nowMs;
      this.#count = 0;
    }
    this.#count += 1;
    return this.#count > NOTES_PER_WINDOW_MAX;
  }
}

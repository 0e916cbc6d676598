const NOTES_AT_ONCE_MAX = 100;
/** Two for each engine, and one takes a tenth of a second to start: nobody honest says more. */
const NOTE_EVERY_MS = 50;

/** How much a peer may say unasked. */
export class NoteLimit {
  #left = NOTES_AT_ONCE_MAX;
  #lastMs = 0;

  /** Counts one more. */
  isOver(nowMs: number): boolean {
    const earned = (nowMs - this.#lastMs) / NOTE_EVERY_MS;
    this.#left = Math.min(NOTES_AT_ONCE_MAX, this.#left + earned) - 1;
    this.#lastMs = nowMs;
    return this.#left < 0;
  }
}

/** Two that were wrong, one after the other, change the expectation. */
const SCORE_MAX = 3;

/**
 * Whether files that are read from their beginning are read on: then one GET for all of it is the
 * best beginning. The last readers tell of the next one.
 */
export class ReadingHabits {
  #score = SCORE_MAX;

  get readOn(): boolean {
    return this.#score > SCORE_MAX / 2;
  }

  note(readOn: boolean): void {
    this.#score = Math.min(SCORE_MAX, Math.max(0, this.#score + (readOn ? 1 : -1)));
  }
}

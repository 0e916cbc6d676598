/** Work on one thing, one at a time, in the order in which it was asked for. */
export class Turns {
  #last: Promise<void> | undefined;

  get busy(): boolean {
    return this.#last !== undefined;
  }

  /** When everything asked for until now has ended, well or not. */
  get idle(): Promise<void> {
    return this.#last ?? Promise.resolve();
  }

  take<T>(work: () => Promise<T>): Promise<T> {
    const result = this.idle.then(work);
    const ended: Promise<void> = result.then(
      () => this.#leave(ended),
      () => this.#leave(ended),
    );
    this.#last = ended;
    return result;
  }

  #leave(ended: Promise<void>): void {
    if (this.#last === ended) this.#last = undefined;
  }
}

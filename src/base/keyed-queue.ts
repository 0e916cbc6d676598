/** Work by key: of one key one after the other, in the order in which it came. */
export class KeyedQueue {
  readonly #last = new Map<string, Promise<unknown>>();

  isBusy(key: string): boolean {
    return this.#last.has(key);
  }

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const earlier = this.#last.get(key) ?? Promise.resolve();
    const mine = earlier.then(work, work);
    this.#last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(key) === mine) this.#last.delete(key);
    }
  }
}

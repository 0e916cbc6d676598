/** Pseudo-random numbers from a seed: the same seed gives the same sequence in every process. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** At least 0, less than 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b_79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  /** A whole number, `end` excluded. */
  between(start: number, end: number): number {
    return start + Math.floor(this.next() * (end - start));
  }

  pick<T>(list: readonly [T, ...T[]]): T {
    return list[this.between(0, list.length)] ?? list[0];
  }
}

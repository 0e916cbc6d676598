/** Doubling delays, spread by half: a thousand watchers must not come back in step. */
export class BackOff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  #failures = 0;

  constructor(firstMs: number, maxMs: number) {
    this.#firstMs = firstMs;
    this.#maxMs = maxMs;
  }

  get failures(): number {
    return this.#failures;
  }

  nextMs(): number {
    const fullMs = Math.min(this.#firstMs * 2 ** this.#failures, this.#maxMs);
    this.#failures += 1;
    return fullMs * (0.5 + Math.random() / 2);
  }

  reset(): void {
    this.#failures = 0;
  }
}

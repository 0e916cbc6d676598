/**
 * Work for many callers at once: each gets the result of a run that began after it asked. Callers
 * that come during a run share the next one.
 */
export class NextRun<T> {
  readonly #work: () => Promise<T>;
  #current: Promise<unknown> = Promise.resolve();
  #next: Promise<T> | undefined;

  constructor(work: () => Promise<T>) {
    this.#work = work;
  }

  result(): Promise<T> {
    this.#next ??= this.#afterCurrent();
    return this.#next;
  }

  async #afterCurrent(): Promise<T> {
    await this.#current;
    this.#next = undefined;
    const run = this.#work();
    this.#current = run.then(
      () => undefined,
      () => undefined,
    );
    return run;
  }
}

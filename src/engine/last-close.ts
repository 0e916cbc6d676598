/**
 * Whether the last descriptor of a file may be closed. A FLUSH comes for every close(2), also of a
 * copy; only the RELEASE, which comes later, tells that it was the last one.
 */
export class LastClose {
  #next: PromiseWithResolvers<void> | undefined;

  /** A FLUSH has come. */
  expectRelease(): void {
    this.#next ??= Promise.withResolvers();
  }

  /** Another request has come: the file is open, or this is its RELEASE. */
  settle(): void {
    this.#next?.resolve();
    this.#next = undefined;
  }

  /** Set while the last request was a FLUSH: resolves at the next one that is none. */
  get expected(): Promise<void> | undefined {
    return this.#next?.promise;
  }
}

interface Queue {
  /** Resolves when the last change is done. */
  writer: Promise<unknown>;
  /** Resolves when all reads since then are done. */
  readers: Promise<unknown>;
}

/**
 * Lets one change of a key happen at a time, with no read beside it. S3 is atomic; a server on a
 * file system reads ETag and bytes one after the other, and would show a mixture of its own.
 */
export class KeyLocks {
  readonly #queues = new Map<string, Queue>();

  shared<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#queueOf(key);
    const done = queue.writer.then(work);
    queue.readers = Promise.allSettled([queue.readers, done]);
    return done;
  }

  exclusively<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#queueOf(key);
    const done = Promise.all([queue.writer, queue.readers]).then(work);
    queue.writer = done.catch(() => undefined);
    queue.readers = Promise.resolve();
    return done;
  }

  /** All that has been asked for up to now is done. */
  async idle(): Promise<void> {
    const queues = [...this.#queues.values()];
    await Promise.all(queues.flatMap(({ writer, readers }) => [writer, readers]));
  }

  #queueOf(key: string): Queue {
    const known = this.#queues.get(key) ?? {
      writer: Promise.resolve(),
      readers: Promise.resolve(),
    };
    this.#queues.set(key, known);
    return known;
  }
}

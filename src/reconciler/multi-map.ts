/** Many values under a key; a key without values takes no memory. */
export class MultiMap<K, V> {
  readonly #sets = new Map<K, Set<V>>();

  add(key: K, value: V): void {
    const set = this.#sets.get(key);
    if (set === undefined) this.#sets.set(key, new Set([value]));
    else set.add(value);
  }

  delete(key: K, value: V): void {
    const set = this.#sets.get(key);
    if (set?.delete(value) === true && set.size === 0) this.#sets.delete(key);
  }

  get(key: K): ReadonlySet<V> {
    return this.#sets.get(key) ?? EMPTY;
  }

  keys(): Iterable<K> {
    return this.#sets.keys();
  }
}

const EMPTY: ReadonlySet<never> = new Set();

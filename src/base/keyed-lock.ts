import { Failure } from "./failure.ts";

/** One holder per key. A second one is sent away at once: its caller comes back by itself. */
export class KeyedLock {
  readonly #held = new Set<string>();

  /** Throws Failure("busy") when the key is held. */
  hold(key: string): Disposable {
    if (this.#held.has(key)) throw new Failure("busy", `an operation on ${key} is under way`);
    this.#held.add(key);
    return { [Symbol.dispose]: () => void this.#held.delete(key) };
  }
}

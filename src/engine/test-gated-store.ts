import { MemoryStore } from "../s3/memory-store.ts";

/** For tests: a bucket whose subclasses wait at a gate that the test shuts and opens. */
export class GatedStore extends MemoryStore {
  #gate: PromiseWithResolvers<void> | undefined;

  /** Undefined while the gate is open. */
  protected get gate(): Promise<void> | undefined {
    return this.#gate?.promise;
  }

  hold(): void {
    this.#gate = Promise.withResolvers();
  }

  letGo(): void {
    this.#gate?.resolve();
    this.#gate = undefined;
  }
}

import { Buffer } from "node:buffer";
import type { PageCache } from "../engine/page-cache.ts";
import type { Journal } from "../journal/journal.ts";
import type { MemoryStore } from "../s3/memory-store.ts";
import type { ObjectStore } from "../s3/object-store.ts";

/**
 * For tests: the life of an engine, counted in instants at which it can be killed. What it does
 * after its end is done by nobody: no call leaves it, no answer reaches it.
 */
export class Life {
  readonly #onEnd: () => void;
  #instantsLeft: number;
  #ended = false;

  /** `onEnd` is called at the very instant: what outlives the engine is as it is then. */
  constructor(instants: number, onEnd: () => void) {
    this.#instantsLeft = instants;
    this.#onEnd = onEnd;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** An instant passes. False when the engine does not live to see what comes next. */
  goesOn(): boolean {
    if (this.#ended) return false;
    this.#instantsLeft -= 1;
    if (this.#instantsLeft >= 0) return true;
    this.#ended = true;
    this.#onEnd();
    return false;
  }
}

type Call = (...args: readonly unknown[]) => Promise<unknown>;

/**
 * The bucket as a mortal sees it, with answers out of order: it may die before a call has its
 * effect, or before it knows.
 */
export function mortalStore(
  bucket: MemoryStore,
  life: Life,
  onCall: (name: string, args: readonly unknown[]) => void,
): ObjectStore {
  let calls = 0;
  return new Proxy(bucket, {
    get(target, name) {
      const call = Reflect.get(target, name) as Call;
      return async (...args: readonly unknown[]) => {
        if (!life.goesOn()) return new Promise(() => {});
        onCall(String(name), args);
        for (let turn = calls++ % 3; turn > 0; turn--) await new Promise(setImmediate);
        if (life.ended) return new Promise(() => {});
        const answer = await call.apply(target, [...args]).catch((error: unknown) => ({ error }));
        if (!life.goesOn()) return new Promise(() => {});
        if (typeof answer === "object" && answer !== null && "error" in answer) throw answer.error;
        return answer;
      };
    },
  });
}

/** What the kernel keeps of contents, as text; it takes a while to do as it is told. */
export function mortalPages(kept: Map<number, string>, life: Life): PageCache {
  const ask = async (act: () => void) => {
    await new Promise(setImmediate);
    if (!life.goesOn()) return new Promise<void>(() => {});
    act();
    return life.goesOn() ? undefined : new Promise<void>(() => {});
  };
  return {
    store: (nodeid, bytes) => ask(() => kept.set(nodeid, Buffer.from(bytes).toString("latin1"))),
    drop: (nodeid) => ask(() => kept.delete(nodeid)),
  };
}

export function mortalJournal(journal: Journal, life: Life) {
  return {
    note: (record: Parameters<Journal["note"]>[0]) => {
      if (life.goesOn()) journal.note(record);
    },
    commit: () => {
      if (!life.goesOn()) return;
      journal.commit();
      life.goesOn();
    },
    get hasRoom() {
      return journal.hasRoom;
    },
  };
}

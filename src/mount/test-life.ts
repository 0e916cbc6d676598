import { Buffer } from "node:buffer";
import type { PageCache } from "../engine/page-cache.ts";
import type { Journal } from "../journal/journal.ts";
import type { Spool } from "../journal/spool.ts";
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
    this.end();
    return false;
  }

  /** Ends the engine at this very instant, as kill -9 does. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#onEnd();
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
  onCall: (name: string, args: readonly unknown[]) => Promise<void> | undefined,
): ObjectStore {
  let calls = 0;
  return new Proxy(bucket, {
    get(target, name) {
      // No request is made for that.
      if (name === "earliestNowMs") return () => target.earliestNowMs();
      const call = Reflect.get(target, name) as Call;
      return async (...args: readonly unknown[]) => {
        if (!life.goesOn()) return new Promise(() => {});
        try {
          await onCall(String(name), args);
        } catch (error) {
          if (life.ended) return new Promise(() => {});
          throw error;
        }
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

/**
 * The spool of a mortal, which may die when it has returned or taken memory. Returned memory may be
 * taken, and cleared, by another writer in the same turn of the event loop.
 */
export function mortalSpool(spool: Spool, life: Life): Spool {
  const [give, take] = [spool.give.bind(spool), spool.take.bind(spool)];
  spool.give = (segment) => {
    if (!life.goesOn()) return;
    const { usedBytes } = spool;
    give(segment);
    if (spool.usedBytes < usedBytes) segment.clear(); // given twice, it may be another one's
    life.goesOn();
  };
  spool.take = (...sizes) => {
    life.goesOn();
    const segment = take(...sizes);
    life.goesOn();
    return segment;
  };
  return spool;
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
    note: (...noted: Parameters<Journal["note"]>) => {
      if (life.goesOn()) journal.note(...noted);
    },
    commit: () => {
      if (!life.goesOn()) return;
      journal.commit();
      life.goesOn();
    },
    /** An engine may die before and after the compaction. */
    makeRoom: () => {
      if (!life.goesOn()) return true;
      const hasRoom = journal.makeRoom();
      life.goesOn();
      return hasRoom;
    },
    get shrunk() {
      return journal.shrunk;
    },
    get hasRoom() {
      return journal.hasRoom;
    },
  };
}

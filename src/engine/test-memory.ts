import { Buffer } from "node:buffer";
import { Journal, journalBytes } from "../journal/journal.ts";
import { replay } from "../journal/saved-state.ts";
import { Spool } from "../journal/spool.ts";
import type { EngineMemory } from "./engine.ts";

const AREA_BYTES = 1 << 18;
const SPOOL_BYTES = 1 << 20;
const OPTIONS = {
  onFenced: () => {
    throw new Error("fenced");
  },
};

/** For tests: what would outlive the process, in memory that does not. */
export class TestMemory {
  readonly #areaBytes: number;
  readonly #journal: Buffer;
  readonly #spool: Buffer;

  constructor(areaBytes = AREA_BYTES, spoolBytes = SPOOL_BYTES) {
    this.#areaBytes = areaBytes;
    this.#journal = Buffer.alloc(journalBytes(areaBytes));
    this.#spool = Buffer.alloc(spoolBytes);
  }

  begin(limitBytes = SPOOL_BYTES): EngineMemory & { readonly journal: Journal } {
    const spool = new Spool(this.#spool, { limitBytes });
    return { journal: Journal.begin(this.#journal, OPTIONS), spool, saved: undefined };
  }

  /** As the next process finds it: what was noted and not committed is lost. */
  resume(limitBytes = SPOOL_BYTES): EngineMemory & { readonly journal: Journal } {
    const { journal, records } = Journal.resume(this.#journal, OPTIONS);
    return { journal, spool: new Spool(this.#spool, { limitBytes }), saved: replay(records) };
  }

  /** As it is at this instant, whatever its owner does to it afterwards. */
  copy(): TestMemory {
    const copy = new TestMemory(this.#areaBytes, this.#spool.length);
    this.#journal.copy(copy.#journal);
    this.#spool.copy(copy.#spool);
    return copy;
  }
}

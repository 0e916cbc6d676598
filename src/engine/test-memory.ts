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
  readonly #journal: Buffer;
  readonly #spool = Buffer.alloc(SPOOL_BYTES);

  constructor(areaBytes = AREA_BYTES) {
    this.#journal = Buffer.alloc(journalBytes(areaBytes));
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
}

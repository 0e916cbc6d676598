import { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import type { JournalRecord } from "./record.ts";
import type { SharedMemory } from "../base/shared-memory.ts";

/** Raised one release after its readers have shipped: we read this one and the next. */
const FORMAT = 1;
const MAGIC = 0x4a43_5333;
const HEADER_BYTES = 4096;
/** Indices of 32-bit words in the header. */
const WORD = { MAGIC: 0, FORMAT: 1, EPOCH: 2, ACTIVE: 3, AREA_BYTES: 4, TAILS: 5 } as const;
/** What one turn of the engine may note before the next compaction. */
const RESERVE_SHARE = 1 / 8;
/** Characters. */
const PENDING_MAX = 32 * 1024;
/** Areas are mapped as far as they are used: doubled from here. */
const FIRST_WINDOW_BYTES = 1 << 20;

export interface JournalOptions {
  /** Another engine has taken over: nothing may be written any more. */
  readonly onFenced: () => void;
  /** Bytes that hold nothing until further notice. */
  readonly onIdle?: (offset: number, sizeBytes: number) => void;
}

export function journalBytes(areaBytes: number): number {
  return HEADER_BYTES + 2 * areaBytes;
}

/** Whether an engine has begun this memory, so that another one can go on with it. */
export function isJournal(memory: SharedMemory): boolean {
  return memory.length >= HEADER_BYTES && headerOf(memory)[WORD.MAGIC] === MAGIC;
}

function headerOf(memory: SharedMemory): Int32Array {
  const bytes = memory.subarray(0, HEADER_BYTES);
  return new Int32Array(bytes.buffer, bytes.byteOffset, HEADER_BYTES / 4);
}

/**
 * What has to outlive this process, as a list of changes in shared memory. Noted records exist
 * from commit() on, all at once: it moves the tail by one store, which a kill can't split. When an
 * area is nearly full the state is written to the other one, and one more store switches over.
 */
export class Journal {
  readonly #memory: SharedMemory;
  readonly #windows: [Buffer | undefined, Buffer | undefined] = [undefined, undefined];
  readonly #words: Int32Array;
  readonly #options: JournalOptions;
  readonly #areaBytes: number;
  readonly #epoch: number;
  #state: (() => Iterable<JournalRecord>) | undefined;
  #active: number;
  #end: number;
  /** Noted and not committed: many small texts are written as one. */
  #pending = "";
  #compactsAt: number;
  #full = false;

  private constructor(memory: SharedMemory, options: JournalOptions) {
    this.#memory = memory;
    this.#options = options;
    this.#words = headerOf(memory);
    this.#areaBytes = this.#word(WORD.AREA_BYTES);
    // Whoever finds a higher epoch than his own knows that he is no longer the one.
    this.#epoch = Atomics.add(this.#words, WORD.EPOCH, 1) + 1;
    this.#active = this.#word(WORD.ACTIVE);
    this.#end = this.#word(WORD.TAILS + this.#active);
    this.#compactsAt = this.#areaBytes * (1 - RESERVE_SHARE);
  }

  static begin(memory: SharedMemory, options: JournalOptions): Journal {
    const words = headerOf(memory);
    words.fill(0);
    words[WORD.FORMAT] = FORMAT;
    words[WORD.AREA_BYTES] = (memory.length - HEADER_BYTES) >> 1;
    Atomics.store(words, WORD.MAGIC, MAGIC);
    return new Journal(memory, options);
  }

  /** Refuses what it can't understand: to go on with half of the truth would lose data. */
  static resume(memory: SharedMemory, options: JournalOptions) {
    if (!isJournal(memory)) throw damaged("its beginning");
    const words = headerOf(memory);
    const format = words[WORD.FORMAT] ?? 0;
    if (format !== FORMAT && format !== FORMAT + 1) {
      const reads = `this release reads ${FORMAT} and ${FORMAT + 1}`;
      throw new Failure("invalid", `a journal of format ${format}: ${reads}`);
    }
    const areaBytes = words[WORD.AREA_BYTES] ?? 0;
    if (areaBytes <= 0 || journalBytes(areaBytes) > memory.length) throw damaged("its size");
    const active = words[WORD.ACTIVE];
    if (active !== 0 && active !== 1) throw damaged("its active area");
    const journal = new Journal(memory, options);
    return { journal, records: journal.#read() };
  }

  /**
   * Where a compaction gets what is true now: in this turn, with nothing half done. Until it is
   * set nobody knows all of that, and nothing is compacted.
   */
  set state(state: () => Iterable<JournalRecord>) {
    this.#state = state;
  }

  get epoch(): number {
    return this.#epoch;
  }

  get usedBytes(): number {
    return this.#end + this.#pending.length;
  }

  /** False: no new identities, please, until some have gone. */
  get hasRoom(): boolean {
    return !this.#full && this.usedBytes < this.#areaBytes * (1 - RESERVE_SHARE / 4);
  }

  note(record: JournalRecord): void {
    if (this.#isFenced) return this.#options.onFenced();
    const pending = this.#pending + lineOf(record);
    if (!this.#fits(pending, this.#end)) throw new Failure("busy", "the journal is full");
    this.#pending = pending;
    if (pending.length > PENDING_MAX) this.#writePending();
  }

  commit(): void {
    if (this.#isFenced) return this.#options.onFenced();
    if (this.#pending !== "") this.#writePending();
    const tail = WORD.TAILS + this.#active;
    if (this.#word(tail) === this.#end) return;
    Atomics.store(this.#words, tail, this.#end);
    if (this.#end > this.#compactsAt && this.#state !== undefined) this.#compact(this.#state());
  }

  #compact(state: Iterable<JournalRecord>): void {
    const former = this.#active;
    const next = 1 - former;
    let end = 0;
    for (const record of state) {
      const text = lineOf(record);
      if (!this.#fits(text, end)) return this.#postpone();
      end = this.#write(text, next, end);
    }
    Atomics.store(this.#words, WORD.TAILS + next, end);
    Atomics.store(this.#words, WORD.ACTIVE, next);
    this.#active = next;
    this.#end = end;
    this.#compactsAt = this.#areaBytes * (1 - RESERVE_SHARE);
    this.#full = end > this.#areaBytes * (1 - 2 * RESERVE_SHARE);
    this.#options.onIdle?.(this.#startOf(former), this.#areaBytes);
  }

  /** What is true now does not fit: what was committed stays, and a later try may do better. */
  #postpone(): void {
    this.#full = true;
    this.#compactsAt = (this.#end + this.#areaBytes) / 2;
  }

  /** A character of JavaScript has 3 bytes at most; asking for the exact size costs more. */
  #fits(text: string, end: number): boolean {
    const roomBytes = this.#areaBytes - end;
    return text.length * 3 <= roomBytes || Buffer.byteLength(text) <= roomBytes;
  }

  #writePending(): void {
    this.#end = this.#write(this.#pending, this.#active, this.#end);
    this.#pending = "";
  }

  #write(text: string, area: number, end: number): number {
    const window = this.#windowOf(area, Math.min(end + text.length * 3, this.#areaBytes));
    return end + window.write(text, end, "utf8");
  }

  #read(): JournalRecord[] {
    if (this.#end < 0 || this.#end > this.#areaBytes) throw damaged("its tail");
    const window = this.#windowOf(this.#active, this.#end);
    const lines = window.toString("utf8", 0, this.#end).split("\n");
    if (lines.pop() !== "") throw damaged("its last record"); // each line has its end
    try {
      const records = JSON.parse(`[${lines.join(",")}]`) as (JournalRecord | null)[];
      if (records.every((record) => typeof record?.is === "string")) return records;
    } catch {
      // As bad as one that is no record.
    }
    throw damaged("a record");
  }

  get #isFenced(): boolean {
    return this.#word(WORD.EPOCH) !== this.#epoch;
  }

  #windowOf(area: number, neededBytes: number): Buffer {
    const known = this.#windows[area];
    if (known !== undefined && known.length >= neededBytes) return known;
    let sizeBytes = FIRST_WINDOW_BYTES;
    while (sizeBytes < neededBytes) sizeBytes *= 2;
    const start = this.#startOf(area);
    const window = this.#memory.subarray(start, start + Math.min(sizeBytes, this.#areaBytes));
    this.#windows[area] = window;
    return window;
  }

  #startOf(area: number): number {
    return HEADER_BYTES + area * this.#areaBytes;
  }

  #word(index: number): number {
    return this.#words[index] ?? 0;
  }
}

/** One line of JSON each: readable by people too, when they have to. */
function lineOf(record: JournalRecord): string {
  return `${JSON.stringify(record)}\n`;
}

function damaged(what: string): Failure {
  return new Failure("invalid", `the journal is damaged (${what}): the mount can't go on`);
}

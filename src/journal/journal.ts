import { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import { damaged, readRecords } from "./read-records.ts";
import type { JournalRecord } from "./record.ts";
import type { SharedMemory } from "../base/shared-memory.ts";

/** Raised one release after its readers have shipped: we read this one and the next. */
const FORMAT = 1;
const MAGIC = 0x4a43_5333;
const HEADER_BYTES = 4096;
const NEWLINE = 0x0a;
/** Indices of 32-bit words in the header. */
const WORD = { MAGIC: 0, FORMAT: 1, EPOCH: 2, ACTIVE: 3, AREA_BYTES: 4, TAILS: 5 } as const;
/** Shares of an area. What follows the first one is for one turn of the engine. */
const SHARE = { COMPACTS: 7 / 8, NEW_NAMES: 15 / 16, BEGINNINGS: 31 / 32 } as const;
/** A state of this share leaves too little room for a turn: there shall be no new names. */
const FULL_SHARE = 3 / 4;
/**
 * Kinds that make the state larger; callers can refuse what they stand for. All other records end
 * something, or change what is known: they must always be possible, else what has failed, was
 * closed or was forgotten would come back with the next engine.
 */
const BEGINNINGS: ReadonlySet<JournalRecord["is"]> = new Set([
  "inode",
  "open",
  "segment",
  "creating",
  "intent",
  "suspect",
]);
/** Kinds that make the state smaller. */
const ENDS: ReadonlySet<JournalRecord["is"]> = new Set(["gone", "closed", "failed", "aborted"]);
/** Names keep this share of the state, however many parts there are. */
const NAMES_SHARE_MIN = 1 / 16;
/** Compactions that may be in vain take at most a tenth of the time, with pauses up to this. */
const COMPACTS_SHARE = 1 / 10;
const PAUSE_MAX_MS = 500;
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

/** The journal has no room for the record now. It may fit when other things have ended. */
export class JournalFull extends Failure {
  constructor() {
    super("busy", "the journal is full");
  }
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
  /** Bytes of the state besides names, when it was last written. */
  #otherBytes = 0;
  /** No compaction that may be in vain before this time. */
  #triesAtMs = 0;
  #onShrunk: PromiseWithResolvers<void> | undefined;
  /** Called when something found no room that can't be refused without harm. */
  onFull: () => void = () => undefined;
  /** The records of an earlier engine were not read to their end: nothing may follow them yet. */
  #isUnread = false;

  private constructor(memory: SharedMemory, options: JournalOptions) {
    this.#memory = memory;
    this.#options = options;
    this.#words = headerOf(memory);
    this.#areaBytes = this.#word(WORD.AREA_BYTES);
    // An engine that finds a higher epoch than its own knows that another one has taken over.
    this.#epoch = Atomics.add(this.#words, WORD.EPOCH, 1) + 1;
    this.#active = this.#word(WORD.ACTIVE);
    this.#end = this.#word(WORD.TAILS + this.#active);
    this.#compactsAt = this.#areaBytes * SHARE.COMPACTS;
  }

  static begin(memory: SharedMemory, options: JournalOptions): Journal {
    const words = headerOf(memory);
    words.fill(0);
    words[WORD.FORMAT] = FORMAT;
    words[WORD.AREA_BYTES] = Math.floor((memory.length - HEADER_BYTES) / 2);
    Atomics.store(words, WORD.MAGIC, MAGIC);
    return new Journal(memory, options);
  }

  /**
   * Refuses what it can't understand: to go on with half of the truth would lose data. So all
   * records have to be read before the first one is noted.
   */
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
    const tail = words[WORD.TAILS + active] ?? 0;
    if (tail < 0 || tail > areaBytes) throw damaged("its tail");
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
    return !this.#full && this.usedBytes < this.#areaBytes * SHARE.NEW_NAMES;
  }

  /** Bytes of names that leave room for more of them: parts of uploads come first. */
  get capacityBytes(): number {
    const stateBytes = this.#areaBytes * FULL_SHARE;
    return Math.max(stateBytes * NAMES_SHARE_MIN, stateBytes - this.#otherBytes);
  }

  /**
   * Whether there is room, after a compaction if that may help: what has ended is room only then.
   * Like commit(), to be called with nothing half done.
   */
  makeRoom(): boolean {
    if (this.hasRoom || this.#isFenced) return true;
    const beganMs = performance.now();
    if (this.#state !== undefined && beganMs >= this.#triesAtMs) {
      this.commit();
      if (!this.#compact(this.#state())) this.#postpone();
      const endMs = performance.now();
      const pauseMs = (endMs - beganMs) * (1 / COMPACTS_SHARE - 1);
      this.#triesAtMs = endMs + Math.min(pauseMs, PAUSE_MAX_MS);
    }
    if (!this.hasRoom) this.onFull();
    return this.hasRoom;
  }

  /** Resolves when something has ended, so that makeRoom() may do better. */
  get shrunk(): Promise<void> {
    this.#onShrunk ??= Promise.withResolvers();
    return this.#onShrunk.promise;
  }

  /** `isChange`: an inode that is known to the journal, which never fails. */
  note(record: JournalRecord, isChange = false): void {
    if (this.#isFenced) return this.#options.onFenced();
    if (this.#isUnread) throw new Error("the records of this journal were not read");
    const pending = this.#pending + lineOf(record);
    if (!isChange && BEGINNINGS.has(record.is)) this.#checkRoom(pending);
    this.#pending = pending;
    if (this.#onShrunk !== undefined && ENDS.has(record.is)) {
      this.#onShrunk.resolve();
      this.#onShrunk = undefined;
    }
    if (pending.length > PENDING_MAX && this.#fits(pending, this.#end)) this.#writePending();
  }

  commit(): void {
    if (this.#isFenced) return this.#options.onFenced();
    if (this.#pending !== "" && !this.#fits(this.#pending, this.#end)) return this.#commitState();
    if (this.#pending !== "") this.#writePending();
    const tail = WORD.TAILS + this.#active;
    if (this.#word(tail) === this.#end) return;
    Atomics.store(this.#words, tail, this.#end);
    if (this.#end <= this.#compactsAt || this.#state === undefined) return;
    if (!this.#compact(this.#state())) this.#postpone();
  }

  /** The state has all that was noted, so that it can be written in place of the last records. */
  #commitState(): void {
    if (this.#state === undefined) return; // nobody was told of anything yet: it follows later
    if (!this.#compact(this.#state())) throw new JournalFull();
    this.#pending = "";
  }

  /** False when the state does not fit: then nothing has changed. */
  #compact(state: Iterable<JournalRecord>): boolean {
    const former = this.#active;
    const next = 1 - former;
    let end = 0;
    let otherBytes = 0;
    for (const record of state) {
      const text = lineOf(record);
      if (!this.#fits(text, end)) {
        this.#releaseInactive();
        return false;
      }
      const textEnd = this.#write(text, next, end);
      if (record.is !== "inode") otherBytes += textEnd - end;
      end = textEnd;
    }
    Atomics.store(this.#words, WORD.TAILS + next, end);
    Atomics.store(this.#words, WORD.ACTIVE, next);
    this.#active = next;
    this.#end = end;
    const midway = (end + this.#areaBytes) / 2; // a large state is not written at every commit
    this.#compactsAt = Math.max(this.#areaBytes * SHARE.COMPACTS, midway);
    this.#full = end > this.#areaBytes * FULL_SHARE;
    this.#otherBytes = otherBytes;
    this.#releaseInactive();
    return true;
  }

  /** What is true now does not fit: what was committed stays, and a later try may do better. */
  #postpone(): void {
    this.#full = true;
    this.#compactsAt = (this.#end + this.#areaBytes) / 2;
  }

  /** A character of JavaScript has 3 bytes at most; asking for the exact size costs more. */
  #fits(text: string, end: number, limitBytes = this.#areaBytes): boolean {
    const roomBytes = limitBytes - end;
    if (text.length > roomBytes) return false;
    return text.length * 3 <= roomBytes || Buffer.byteLength(text) <= roomBytes;
  }

  #checkRoom(pending: string): void {
    const fits = this.#fits(pending, this.#end, this.#areaBytes * SHARE.BEGINNINGS);
    // The rest of a state that is nearly full is for what ends something.
    if (fits && !this.#full) return;
    throw new JournalFull();
  }

  #writePending(): void {
    this.#end = this.#write(this.#pending, this.#active, this.#end);
    this.#pending = "";
  }

  #write(text: string, area: number, end: number): number {
    const window = this.#windowOf(area, Math.min(end + text.length * 3, this.#areaBytes));
    return end + window.write(text, end, "utf8");
  }

  #read(): Generator<JournalRecord, void, undefined> {
    const used = this.#windowOf(this.#active, this.#end).subarray(0, this.#end);
    if (used.length > 0 && used.at(-1) !== NEWLINE) throw damaged("its last record");
    this.#isUnread = true;
    return this.#readOnce(used);
  }

  *#readOnce(used: Buffer): Generator<JournalRecord, void, undefined> {
    yield* readRecords(used);
    this.#isUnread = false;
    // An engine that was killed while it compacted has left both areas full.
    this.#releaseInactive();
  }

  #releaseInactive(): void {
    this.#options.onIdle?.(this.#startOf(1 - this.#active), this.#areaBytes);
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

import { Buffer } from "node:buffer";
import type { Stats } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Log } from "../base/log.ts";
import type { CacheDirectory } from "./cache-directory.ts";
import { BLOCK_BYTES, CHUNK_BYTES, HEADER_BYTES, sealPiece, verifyPiece } from "./piece-file.ts";
import type { ObjectIdentity, Span } from "./piece-file.ts";
import { fileNameOf, PieceIndex } from "./piece-index.ts";
import type { Piece } from "./piece-index.ts";
import { PieceOrder } from "./piece-order.ts";
import type { Space } from "./space.ts";

/** One alone would wait for its turn in a busy process more than for the disk. */
const WRITERS_MAX = 4;
/** A disk that is full or broken will be so for a while. */
const PAUSE_MS = 10_000;
/** Pieces that are put in their order in one turn of the event loop. */
const ORDER_STEP = 4096;
const WHOLE_BYTES = HEADER_BYTES + BLOCK_BYTES;

/** The memory that a cache may use. */
export interface CacheMemory {
  /** Copies that wait for the disk; what comes while they are so many is not cached. */
  readonly pendingBytes: number;
  /** Files, and entries of the index: a few hundred bytes for each. */
  readonly pieces: number;
}

const USUAL_MEMORY: CacheMemory = { pendingBytes: 32 * BLOCK_BYTES, pieces: 1 << 18 };

export interface CacheOptions {
  readonly directory: CacheDirectory;
  readonly space: Space;
  readonly log: Log;
  readonly memory?: CacheMemory;
}

interface Pending {
  readonly object: ObjectIdentity;
  readonly span: Span;
  readonly file: Buffer;
}

/**
 * Pieces of objects on a disk. Nothing here ever fails: what can't be read is not there, what
 * can't be written is not kept.
 * INVARIANT: every file in the directory is counted from before it is made until after it is
 * removed, and the space allows for that much.
 */
export class DiskCache {
  /** Resolves when the pieces of an earlier mount are counted; nothing is written before. */
  readonly ready: Promise<void>;
  readonly counts = { hits: 0, stored: 0, dropped: 0, damaged: 0, failed: 0 };
  readonly #options: CacheOptions;
  readonly #memory: CacheMemory;
  readonly #index = new PieceIndex();
  readonly #queue: Pending[] = [];
  readonly #spare: Buffer[] = [];
  readonly #writers = new Set<Promise<void>>();
  #usedBytes = 0;
  #reservedBytes = 0; // for files that are not complete yet
  #pendingBytes = 0;
  #reserving = Promise.resolve();
  #nextSerial = 0;
  #pausedUntilMs = 0;
  /** Of the pieces found so far, those that were read before the scan has ended. */
  #readWhileScanning: Set<Piece> | undefined = new Set();
  /** Files that are not counted may be there: nothing may be written. */
  #isUncounted = true;
  #isClosing = false;

  private constructor(options: CacheOptions) {
    this.#options = options;
    this.#memory = options.memory ?? USUAL_MEMORY;
    this.#usedBytes = options.directory.baseBytes;
    this.ready = this.#scan();
  }

  /** Pieces of an earlier mount can be read as they are found: see `ready`. */
  static open(options: CacheOptions): DiskCache {
    return new DiskCache(options);
  }

  get usedBytes(): number {
    return this.#usedBytes + this.#reservedBytes;
  }

  /** Resolves when nothing waits for the disk any more. */
  async settled(): Promise<void> {
    await this.ready;
    while (this.#writers.size > 0) await Promise.all(this.#writers);
  }

  /** What is in it stays there, for the next one who opens it. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.settled();
    this.#options.directory.close();
  }

  has(object: ObjectIdentity, span: Span): boolean {
    return this.#index.covering(object.hash, span) !== undefined;
  }

  /** Fills `into` with the span, which lies in one block. False: fetch it, `into` is spoilt. */
  async read(object: ObjectIdentity, span: Span, into: Buffer): Promise<boolean> {
    const piece = this.#index.covering(object.hash, span);
    if (piece === undefined) return false;
    piece.readers += 1;
    const right = await this.#readPiece(piece, object, span, into);
    piece.readers -= 1;
    if (right) {
      this.counts.hits += 1;
      this.#index.touch(piece);
      this.#readWhileScanning?.add(piece);
    } else {
      this.counts.damaged += 1;
      this.#options.log.warn({ key: object.key, ...span }, "damaged in the cache, fetched again");
      this.#index.remove(piece);
    }
    // Removed by whom it may be, its last reader ends it: an open file takes its place on the disk.
    if (piece.readers === 0 && !this.#index.has(piece)) await this.#unlink(piece);
    return right;
  }

  /** Keeps a copy of the span, which lies in one block, if that is easy now. */
  offer(object: ObjectIdentity, offsetBytes: number, bytes: Buffer): void {
    const span = { offsetBytes, sizeBytes: bytes.length };
    if (this.#index.covering(object.hash, span) !== undefined) return;
    const fileBytes = HEADER_BYTES + bytes.length;
    const tooMuch = this.#pendingBytes + fileBytes > this.#memory.pendingBytes;
    if (tooMuch || performance.now() < this.#pausedUntilMs) {
      this.counts.dropped += 1;
      return;
    }
    this.#pendingBytes += fileBytes;
    const reused = fileBytes === WHOLE_BYTES ? this.#spare.pop() : undefined;
    const file = reused ?? Buffer.allocUnsafeSlow(fileBytes);
    bytes.copy(file, HEADER_BYTES);
    this.#queue.push({ object, span, file });
    if (this.#writers.size === WRITERS_MAX) return;
    const writer = this.#drain();
    this.#writers.add(writer);
    void writer.then(() => this.#writers.delete(writer));
  }

  /** Counts what is in the directory, and lets go what is too much. */
  async #scan(): Promise<void> {
    const order = new PieceOrder();
    try {
      for await (const found of this.#options.directory.scan()) {
        if (this.#isClosing) return;
        for (const { piece } of found) this.#takeUp(piece);
        order.add(found);
      }
      this.#isUncounted = false;
      const pieces = await order.take();
      for (const [index, { piece }] of pieces.entries()) {
        if (this.#readWhileScanning?.has(piece) !== true) this.#index.touch(piece);
        if (index % ORDER_STEP === 0) await nextTurn();
      }
      for (const piece of this.#readWhileScanning ?? []) this.#index.touch(piece);
      await this.#reserve(0);
    } catch (error) {
      this.counts.failed += 1;
      this.#options.log.warn({ err: error, ...this.counts }, "the cache can't be scanned");
    }
    this.#readWhileScanning = undefined;
  }

  #takeUp(piece: Piece): void {
    this.#index.add(piece);
    this.#usedBytes += piece.chargedBytes;
    this.#nextSerial = Math.max(this.#nextSerial, piece.serial + 1);
  }

  async #drain(): Promise<void> {
    await this.ready;
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      try {
        await this.#store(next);
      } catch (error) {
        this.counts.failed += 1;
        this.#pausedUntilMs = performance.now() + PAUSE_MS;
        this.#options.log.warn({ err: error, ...this.counts }, "the cache can't be written");
      }
      this.#pendingBytes -= next.file.length;
      if (next.file.length === WHOLE_BYTES) this.#spare.push(next.file);
    }
    this.#spare.length = 0; // a mount at rest needs no memory for it
  }

  async #store({ object, span, file }: Pending): Promise<void> {
    const { directory } = this.#options;
    const known = this.#index.covering(object.hash, span) !== undefined;
    if (known || this.#isUncounted || !sealPiece(file, object, span)) return;
    const reservedBytes = directory.chargeOf(file.length);
    const hopeless = directory.baseBytes + reservedBytes > this.#options.space.limitBytes;
    if (hopeless || !(await this.#reserve(reservedBytes))) {
      this.counts.dropped += 1;
      return;
    }
    const path = join(directory.path, `new-${this.#nextSerial}`);
    const plan = { objectHash: object.hash, ...span, serial: this.#nextSerial++, readers: 0 };
    let piece: Piece;
    try {
      piece = { ...plan, chargedBytes: directory.chargeFor(await writeNew(path, file)) };
      // Only now under its own name: what is found there was written whole.
      await rename(path, join(directory.path, fileNameOf(piece)));
    } catch (error) {
      await rm(path, { force: true });
      this.#reservedBytes -= reservedBytes;
      throw error;
    }
    this.#reservedBytes -= reservedBytes;
    this.#usedBytes += piece.chargedBytes;
    this.counts.stored += 1;
    this.#index.add(piece);
    for (const old of this.#index.within(piece)) await this.#discard(old);
    if (piece.chargedBytes > reservedBytes) await this.#reserve(0);
  }

  /** One after the other: what two see free may be the same. */
  async #reserve(wantedBytes: number): Promise<boolean> {
    const before = this.#reserving;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#reserving = promise;
    await before;
    try {
      const hasRoom = await this.#makeRoom(wantedBytes);
      if (hasRoom) this.#reservedBytes += wantedBytes;
      return hasRoom;
    } finally {
      resolve();
    }
  }

  /** Lets the pieces go that were used longest ago, until so much more has its place. */
  async #makeRoom(wantedBytes: number): Promise<boolean> {
    const { space } = this.#options;
    for (;;) {
      const fits = await space.fits(this.#usedBytes, this.#reservedBytes + wantedBytes);
      if (fits && this.#index.count < this.#memory.pieces) return true;
      const victim = this.#index.leastRecent();
      if (victim === undefined) return false;
      await this.#discard(victim);
    }
  }

  async #discard(piece: Piece): Promise<void> {
    this.#index.remove(piece);
    if (piece.readers === 0) await this.#unlink(piece);
  }

  /** A file that can't be removed goes on being counted. */
  async #unlink(piece: Piece): Promise<void> {
    try {
      await rm(join(this.#options.directory.path, fileNameOf(piece)), { force: true });
      this.#usedBytes -= piece.chargedBytes;
    } catch (error) {
      this.counts.failed += 1;
      this.#options.log.warn({ err: error, ...this.counts }, "the cache can't be cleared");
    }
  }

  async #readPiece(piece: Piece, object: ObjectIdentity, span: Span, into: Buffer) {
    const from = span.offsetBytes - piece.offsetBytes;
    const chunksFromBytes = Math.floor(from / CHUNK_BYTES) * CHUNK_BYTES;
    const chunksEnd = Math.ceil((from + span.sizeBytes) / CHUNK_BYTES) * CHUNK_BYTES;
    const sizeBytes = Math.min(chunksEnd, piece.sizeBytes) - chunksFromBytes;
    // Whole chunks go where they belong; a part of one can't be verified without the rest.
    const data = sizeBytes === into.length ? into : Buffer.allocUnsafeSlow(sizeBytes);
    const header = Buffer.allocUnsafeSlow(HEADER_BYTES);
    try {
      const path = join(this.#options.directory.path, fileNameOf(piece));
      await readParts(path, header, data, HEADER_BYTES + chunksFromBytes);
    } catch {
      return false;
    }
    const facts = { object, span: piece, chunksFromBytes };
    if (!verifyPiece(header, data, facts)) return false;
    if (data !== into) data.copy(into, 0, from - chunksFromBytes);
    return true;
  }
}

async function writeNew(path: string, bytes: Buffer): Promise<Stats> {
  await using file = await open(path, "wx", 0o600);
  const { bytesWritten } = await file.write(bytes);
  if (bytesWritten !== bytes.length) throw new Error("the disk took a part of it only");
  return await file.stat();
}

async function readParts(path: string, header: Buffer, data: Buffer, dataAtBytes: number) {
  await using file = await open(path, "r");
  const [first, second] = await Promise.all([
    file.read(header, 0, header.length, 0),
    file.read(data, 0, data.length, dataAtBytes),
  ]);
  const whole = first.bytesRead === header.length && second.bytesRead === data.length;
  if (!whole) throw new Error("it is shorter than it was");
}

import { within } from "../base/within.ts";
import type { Journal } from "../journal/journal.ts";
import { newUpload } from "../journal/saved-state.ts";
import type { SavedUpload, UploadRecord } from "../journal/saved-state.ts";
import type { Spool } from "../journal/spool.ts";
import { newNonce } from "../s3/nonce.ts";
import type { ObjectStore, UploadedPart } from "../s3/object-store.ts";
import { Multipart } from "./multipart.ts";
import { PartsInFlight } from "./parts-in-flight.ts";
import { isPosixCode, PosixFailure } from "./posix-failure.ts";
import { SummedSegment } from "./summed-segment.ts";
import { Turns } from "./turns.ts";
import { UploadNotes } from "./upload-notes.ts";

const PARTS_MAX = 10_000;
const PARTS_IN_FLIGHT_MAX = 8;
const FIRST_SEGMENT_BYTES = 128 * 1024;

export interface UploadDeps {
  readonly store: ObjectStore;
  readonly spool: Spool;
  readonly journal: Pick<Journal, "note" | "commit">;
  /** Nobody will complete it: S3 shall forget its parts. */
  readonly discard: (key: string, uploadId: string) => Promise<void>;
  readonly partSizeBytes: number;
  /** S3 has it, by one PUT of these bytes. */
  readonly onStored: (bytes: Uint8Array) => Promise<void>;
}

/**
 * One object on its way to S3: bytes come in order, leave in parts, and become visible all at
 * once at the end. A file that fits into one part is one PUT. What was acknowledged is in the
 * spool until S3 has it, and the journal says where: another process can go on at any point.
 */
export class Upload {
  readonly #deps: UploadDeps;
  readonly #handle: number;
  readonly #key: string;
  readonly #notes: UploadNotes;
  readonly #multipart: Multipart;
  readonly #abort = new AbortController();
  readonly #parts: Promise<UploadedPart>[] = [];
  readonly #turns = new Turns();
  readonly #inFlight = new PartsInFlight();
  #segment: SummedSegment | undefined;
  #sizeBytes = 0;
  /** Of a PUT that may have happened. */
  #nonce: string | undefined;
  #failure: unknown;
  #completion: Promise<{ etag: string }> | undefined;
  #wasInterrupted = false;

  constructor(deps: UploadDeps, handle: number, key: string, saved = newUpload()) {
    this.#deps = deps;
    this.#handle = handle;
    this.#key = key;
    this.#notes = new UploadNotes(deps.journal, saved);
    this.#multipart = new Multipart(deps, this.#notes, { handle, key }, saved);
    this.#restore(saved);
  }

  /** Acknowledged bytes. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get completing(): boolean {
    return this.#completion !== undefined;
  }

  /** Visible in S3, and everybody knows. */
  get completed(): boolean {
    return this.#notes.isCompleted;
  }

  /** What a successor has to know of it. */
  get records(): Iterable<UploadRecord> {
    return this.#notes.records;
  }

  /** Whoever wrote last did not want to wait to the end. */
  get wasInterrupted(): boolean {
    return this.#wasInterrupted;
  }

  /**
   * Settles at once when the bytes fit into the current part, else when there is room. If the
   * caller wants to leave before, with what was taken until then, or EINTR.
   */
  write(offsetBytes: number, data: Uint8Array, leaving?: AbortSignal): number | Promise<number> {
    if (this.#turns.busy) return this.#queue(offsetBytes, data, leaving);
    this.#check(offsetBytes, data.length);
    const segment = this.#segment;
    const isLast = (segment?.filledBytes ?? 0) + data.length >= this.#deps.partSizeBytes;
    if (segment === undefined || isLast || !segment.hasRoomFor(data.length)) {
      return this.#queue(offsetBytes, data, leaving);
    }
    this.#wasInterrupted = false;
    segment.append(data);
    this.#sizeBytes += data.length;
    return data.length;
  }

  /** Completed by one PUT, with all bytes still here: more may follow, and it is PUT again. */
  get continuable(): boolean {
    return this.completing && this.#parts.length === 0 && this.#failure === undefined;
  }

  /** Goes on after `prepare`, which a successor does again if it can't know that it was done. */
  continue(prepare: () => Promise<void>): void {
    this.#completion = undefined;
    this.#nonce = undefined;
    const goOn = () => this.#notes.note({ is: "continued", handle: this.#handle });
    void this.#turns.take(() => prepare().then(goOn));
  }

  /** No more writes will come. */
  close(): void {
    if (this.#segment !== undefined) this.#deps.spool.give(this.#segment.segment);
    this.#segment = undefined;
  }

  /**
   * Makes the object exist with what was written; the same answer however often it is asked. For
   * one who wants to leave before that, it is EINTR; the rest goes on.
   */
  complete(leaving?: AbortSignal): Promise<{ etag: string }> {
    this.#completion ??= this.#complete();
    if (leaving === undefined) return this.#completion;
    return within(this.#completion, leaving, () => this.#interrupt());
  }

  /** To be noted with what follows from it, so that no successor sees one without the other. */
  noteCompleted(etag: string): void {
    this.#notes.noteWithOthers({ is: "completed", handle: this.#handle, etag });
  }

  /** Nothing of it shall be seen. */
  async abort(why: unknown): Promise<void> {
    this.#fail(why);
    this.#abort.abort(why);
    await this.#multipart.discard();
  }

  #restore({ segments, sent, ending }: SavedUpload): void {
    for (const { part, etag, checksum, size } of sent.values()) {
      const sum = checksum === undefined ? {} : { checksum };
      this.#parts[part - 1] = Promise.resolve({ partNumber: part, etag, ...sum });
      this.#sizeBytes += size;
    }
    this.#restoreEnding(ending);
    for (const { part, at, size } of [...segments.values()].toSorted((a, b) => a.part - b.part)) {
      const segment = new SummedSegment(this.#deps.spool.claim(at, size));
      this.#sizeBytes += segment.filledBytes;
      const isWhole = segment.filledBytes === this.#deps.partSizeBytes;
      if (isWhole && this.#failure === undefined) this.#startPart(part, segment);
      else this.#segment = segment;
    }
    // What was about to become visible may be so by now: nothing can be added before that is known.
    if (ending?.is === "putting" || ending?.is === "completing") this.complete().catch(() => {});
  }

  #restoreEnding(ending: SavedUpload["ending"]): void {
    if (ending?.is === "putting") this.#nonce = ending.nonce;
    if (ending?.is === "completed") this.#completion = Promise.resolve({ etag: ending.etag });
    if (ending?.is !== "failed") return;
    const { code, reason } = ending;
    void this.abort(new PosixFailure(isPosixCode(code) ? code : "EIO", reason));
  }

  #queue(offsetBytes: number, data: Uint8Array, leaving?: AbortSignal): Promise<number> {
    return this.#turns.take(() => this.#writeSlowly(offsetBytes, data, leaving));
  }

  async #writeSlowly(offsetBytes: number, data: Uint8Array, leaving?: AbortSignal) {
    this.#check(offsetBytes, data.length);
    const { partSizeBytes } = this.#deps;
    let rest = data;
    while (rest.length > 0) {
      await this.#sendWhole(leaving);
      const piece = rest.subarray(0, partSizeBytes - (this.#segment?.filledBytes ?? 0));
      const segment = piece.length > 0 ? await this.#segmentFor(piece.length, leaving) : undefined;
      if (segment === undefined) break;
      segment.append(piece);
      this.#sizeBytes += piece.length;
      rest = rest.subarray(piece.length);
    }
    await this.#sendWhole(leaving);
    this.#wasInterrupted = leaving?.aborted === true;
    if (rest.length > 0 && rest.length === data.length) throw this.#interrupt();
    return data.length - rest.length;
  }

  #interrupt(): PosixFailure {
    this.#wasInterrupted = true;
    return new PosixFailure("EINTR", `${this.#key}: its writer was interrupted`);
  }

  /** A part that is full goes on its way, unless somebody leaves before it can. */
  async #sendWhole(leaving: AbortSignal | undefined): Promise<void> {
    if (this.#segment?.filledBytes === this.#deps.partSizeBytes) await this.#sendSegment(leaving);
  }

  /** Out of order is the caller's error, and ends the upload: a hole can't be filled later. */
  #check(offsetBytes: number, sizeBytes: number): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#completion !== undefined) {
      throw new PosixFailure("EIO", `${this.#key}: written after its upload was completed`);
    }
    if (offsetBytes !== this.#sizeBytes) {
      const message = `${this.#key}: write at ${offsetBytes}, expected at ${this.#sizeBytes}`;
      const failure = new PosixFailure("EINVAL", message);
      void this.abort(failure);
      throw failure;
    }
    if (this.#sizeBytes + sizeBytes > PARTS_MAX * this.#deps.partSizeBytes) {
      throw new PosixFailure("EFBIG", `${this.#key}: larger than ${PARTS_MAX} parts`);
    }
  }

  /** The first part's segment grows with the file: most files are small. */
  async #segmentFor(sizeBytes: number, leaving?: AbortSignal): Promise<SummedSegment | undefined> {
    const { store, spool, partSizeBytes } = this.#deps;
    const former = this.#segment;
    if (former?.hasRoomFor(sizeBytes) === true) return former;
    const sum = former === undefined ? await store.startSum() : undefined;
    const needed = (former?.filledBytes ?? 0) + sizeBytes;
    let capacity = this.#parts.length > 0 ? partSizeBytes : FIRST_SEGMENT_BYTES;
    while (capacity < needed) capacity *= 4;
    capacity = Math.min(capacity, partSizeBytes);
    // Only for parts of our own: waiting for other writers could be waiting for ever.
    while (!spool.hasRoomFor(capacity) && this.#inFlight.count > 0) {
      await this.#inFlight.next(leaving);
      if (leaving?.aborted === true) return undefined;
    }
    if (this.#failure !== undefined) throw this.#failure;
    const taken = spool.take(capacity);
    const segment = former?.movedTo(taken) ?? new SummedSegment(taken, sum);
    const { at, sizeBytes: size } = taken;
    const part = this.#parts.length + 1;
    this.#notes.note({ is: "segment", handle: this.#handle, part, at, size });
    this.#segment = segment;
    if (former !== undefined) spool.give(former.segment);
    return segment;
  }

  async #sendSegment(leaving?: AbortSignal): Promise<void> {
    while (this.#inFlight.count >= PARTS_IN_FLIGHT_MAX) {
      await this.#inFlight.next(leaving);
      if (leaving?.aborted === true) return;
    }
    if (this.#failure !== undefined) throw this.#failure;
    const segment = this.#segment;
    if (segment === undefined) return;
    this.#segment = undefined;
    this.#startPart(this.#parts.length + 1, segment);
  }

  #startPart(partNumber: number, segment: SummedSegment): void {
    const sent = this.#multipart.send(partNumber, segment, this.#abort.signal);
    // Noted before its place goes to others: a successor must not claim it for this one.
    const part = sent
      .catch((error: unknown) => this.#failPart(error))
      .finally(() => this.#deps.spool.give(segment.segment));
    this.#inFlight.add(part);
    this.#parts[partNumber - 1] = part;
  }

  async #complete(): Promise<{ etag: string }> {
    try {
      await this.#turns.idle;
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#parts.length > 0) return await this.#completeParts();
      const stored = await this.#putWhole();
      if (this.#segment !== undefined) await this.#deps.onStored(this.#segment.bytes);
      return stored;
    } catch (error) {
      await this.abort(error);
      throw error;
    }
  }

  /** A PUT that an earlier engine may have done is not done again over what others put there. */
  async #putWhole(): Promise<{ etag: string }> {
    const { store } = this.#deps;
    const { signal } = this.#abort;
    const done = this.#nonce && (await store.findOwn(this.#key, this.#nonce, signal));
    if (done !== undefined && done !== "") return { etag: done };
    const nonce = newNonce();
    this.#notes.note({ is: "putting", handle: this.#handle, nonce });
    const { bytes = new Uint8Array(), sum } = this.#segment ?? {};
    return store.put(this.#key, bytes, nonce, signal, sum);
  }

  async #completeParts(): Promise<{ etag: string }> {
    if ((this.#segment?.filledBytes ?? 0) > 0) await this.#sendSegment();
    return this.#multipart.complete(await Promise.all(this.#parts), this.#abort.signal);
  }

  #failPart(error: unknown): never {
    this.#fail(error);
    throw error;
  }

  #fail(why: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = why;
    const code = why instanceof PosixFailure ? why.code : "EIO";
    const reason = why instanceof Error ? why.message : String(why);
    this.#notes.note({ is: "failed", handle: this.#handle, code, reason });
  }
}

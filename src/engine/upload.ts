import { within } from "../base/within.ts";
import { newUpload } from "../journal/saved-state.ts";
import type { SavedUpload, UploadRecord } from "../journal/saved-state.ts";
import type { UploadedPart } from "../s3/object-store.ts";
import { CurrentPart } from "./current-part.ts";
import type { OwnerRole } from "./file-owners.ts";
import { LastWrite } from "./last-write.ts";
import { Multipart } from "./multipart.ts";
import { PartsInFlight } from "./parts-in-flight.ts";
import { isInterruption, isPosixCode, PosixFailure } from "./posix-failure.ts";
import { savedParts } from "./saved-parts.ts";
import { SummedSegment } from "./summed-segment.ts";
import { takenBefore } from "./taken-before.ts";
import type { ResentWrite } from "./taken-before.ts";
import { Turns } from "./turns.ts";
import type { UploadDeps } from "./upload-deps.ts";
import { UploadNotes } from "./upload-notes.ts";
import { WholePut } from "./whole-put.ts";
import type { WriteRequest } from "./write-request.ts";

const PARTS_IN_FLIGHT_MAX = 8;
const NEVER = new AbortController().signal;

/**
 * One object on its way to S3: bytes come in order, leave in parts, and become visible all at
 * once at the end. A file that fits into one part is one PUT. Acknowledged bytes stay in the
 * spool until S3 has them, and the journal says where, so that another process can take over at
 * any point. An upload that failed once has failed for good: every later write, fsync and close
 * reports the error, and no object appears.
 */
export class Upload {
  readonly #deps: UploadDeps;
  readonly #handle: number;
  readonly #key: string;
  readonly #notes: UploadNotes;
  readonly #multipart: Multipart;
  readonly #wholePut: WholePut;
  readonly #abort = new AbortController();
  readonly #parts: Promise<UploadedPart>[] = [];
  /** Segments of parts that are on their way to S3, by part number. */
  readonly #sending = new Map<number, SummedSegment>();
  readonly #turns = new Turns();
  readonly #inFlight = new PartsInFlight();
  readonly #current: CurrentPart;
  #sizeBytes = 0;
  #failure: unknown;
  #aborted: Promise<void> | undefined;
  #completion: Promise<{ etag: string }> | undefined;
  readonly #lastWrite: LastWrite;

  constructor(deps: UploadDeps, handle: number, key: string, saved = newUpload()) {
    this.#deps = deps;
    this.#handle = handle;
    this.#key = key;
    this.#notes = new UploadNotes(deps.journal, saved);
    this.#lastWrite = new LastWrite(this.#notes, handle, key);
    this.#multipart = new Multipart(deps, this.#notes, { handle, key, upload: this }, saved);
    this.#wholePut = new WholePut(deps, this.#notes, { handle, key });
    this.#current = this.#startCurrentPart();
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

  /** Parts that the journal has of it, until it has ended. */
  get heldParts(): number {
    return this.#failure === undefined ? this.#parts.length : 0;
  }

  /** The records that a successor needs of the upload. */
  get records(): Iterable<UploadRecord> {
    return this.#notes.records;
  }

  /** The caller of the last write has left, and the upload has not ended since. */
  get wasInterrupted(): boolean {
    return this.#lastWrite.wasLeft;
  }

  /** A write behind the end of a completed upload has ended with EINTR. */
  noteCut(): void {
    this.#lastWrite.answered(true, true);
  }

  /** Fails a file that ends without the rest of its last write; what fsync has uploaded stays. */
  endCut(): PosixFailure | undefined {
    if (!this.#lastWrite.isCut || this.#failure !== undefined) return undefined;
    const { loss } = this.#lastWrite;
    if (this.#completion === undefined) void this.abort(loss);
    else void this.#completion.then(() => this.abort(loss)).catch(() => undefined);
    return loss;
  }

  /** The error that every later call reports; undefined while all is well. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Bytes that an earlier engine took of a request which is sent again. */
  takenBefore(request: ResentWrite): number {
    const held = new Map(this.#sending);
    const { segment } = this.#current;
    if (segment !== undefined) held.set(this.#parts.length + 1, segment);
    return takenBefore(request, { sizeBytes: this.#sizeBytes, held, sent: this.#notes.sent });
  }

  /**
   * Settles at once when the bytes fit into the current segment, else when there is memory. When
   * the caller leaves before that, the result is the bytes taken until then, or EINTR.
   */
  write(
    offsetBytes: number,
    data: Uint8Array,
    request: WriteRequest = {},
  ): number | Promise<number> {
    if (this.#turns.busy) return this.#queue(offsetBytes, data, request);
    this.#check(offsetBytes, data.length);
    if (!this.#current.tryAppend(data, request.unique)) {
      return this.#queue(offsetBytes, data, request);
    }
    this.#lastWrite.answered(false, false);
    this.#sizeBytes += data.length;
    return data.length;
  }

  /** A single PUT completes the upload. All bytes are in the spool until then: more may follow. */
  get fitsIntoPart(): boolean {
    return this.#parts.length === 0 && this.#failure === undefined;
  }

  /** Completed by one PUT with all bytes still in the spool: more may follow, to be PUT again. */
  get continuable(): boolean {
    return this.completing && this.fitsIntoPart;
  }

  /** Reopens the upload after `prepare`, which a successor repeats if the journal lacks its end. */
  continue(prepare: () => Promise<void>): void {
    this.#completion = undefined;
    this.#wholePut.renew();
    const goOn = () => this.#notes.note({ is: "continued", handle: this.#handle });
    void this.#turns.take(() => prepare().then(goOn));
  }

  /** Returns the memory: no more writes will come. */
  close(): void {
    this.#current.release();
  }

  /**
   * Makes the object exist with what was written; the same answer however often it is asked. A
   * caller that leaves before gets EINTR, and the completion goes on.
   */
  complete(leaving?: AbortSignal): Promise<{ etag: string }> {
    if (!this.completing) this.endCut();
    // A write may also fail after the object was completed, by fsync: then close reports that.
    const completion =
      this.#failure === undefined ? (this.#completion ??= this.#complete()) : this.#reportFailure();
    if (leaving === undefined) return completion;
    return within(completion, leaving, () => this.#lastWrite.interrupt());
  }

  /** Rejects when nothing of the upload is left in S3. */
  async #reportFailure(): Promise<never> {
    await this.abort(this.#failure);
    throw this.#failure;
  }

  noteOwner(owner: string, role: OwnerRole): void {
    const opened = role === "opener" ? true : undefined;
    const inherited = role === "heir" ? true : undefined;
    const roles = { opened, inherited, optional: true } as const;
    this.#notes.noteWithOthers({ is: "owner", handle: this.#handle, owner, ...roles });
  }

  /** Noted together with its consequences, so that no successor sees one without the other. */
  noteCompleted(etag: string): void {
    this.#notes.noteWithOthers({ is: "completed", handle: this.#handle, etag });
  }

  /** Ends the upload: no object appears, its parts are removed, every later call reports `why`. */
  abort(why: unknown): Promise<void> {
    this.#fail(why);
    if (this.#aborted === undefined) {
      this.#aborted = this.#discard();
      this.#deps.discarded.track(this.#aborted);
    }
    return this.#aborted;
  }

  /** The upload is removed after its last request has ended: a late part would bring it back. */
  async #discard(): Promise<void> {
    await Promise.allSettled(this.#parts);
    await this.#multipart.discard();
  }

  #restore(saved: SavedUpload): void {
    const { sent, ending } = saved;
    for (const { part, etag, checksum, size } of sent.values()) {
      const sum = checksum === undefined ? {} : { checksum };
      this.#parts[part - 1] = Promise.resolve({ partNumber: part, etag, ...sum });
      this.#sizeBytes += size;
    }
    this.#restoreEnding(ending);
    for (const { part, at, size, wasSent } of savedParts(saved)) {
      const segment = new SummedSegment(this.#deps.spool.claim(at, size));
      this.#sizeBytes += segment.filledBytes;
      const isWhole = segment.filledBytes >= this.#deps.partSizes.fullBytes;
      // A file that was PUT whole has no parts, also if it is larger than a part is now.
      if ((isWhole || wasSent) && ending === undefined) this.#startPart(part, segment);
      else this.#current.restore(segment);
    }
    // An object that was about to become visible may be so by now: nothing can be added before
    // that is known.
    if (ending?.is === "putting" || ending?.is === "completing") this.complete().catch(() => {});
  }

  #restoreEnding(ending: SavedUpload["ending"]): void {
    if (ending?.is === "putting") this.#wholePut.restore(ending.nonce);
    if (ending?.is === "completed") this.#completion = Promise.resolve({ etag: ending.etag });
    if (ending?.is !== "failed") return;
    const { code, reason } = ending;
    void this.abort(new PosixFailure(isPosixCode(code) ? code : "EIO", reason));
  }

  #queue(offsetBytes: number, data: Uint8Array, request: WriteRequest): Promise<number> {
    const written = this.#turns.take(() => this.#writeSlowly(offsetBytes, data, request));
    return written.finally(() => this.#deps.spool.becameIdle());
  }

  /** A write that fails leaves a hole: the file can't be completed any more. */
  async #writeSlowly(offsetBytes: number, data: Uint8Array, request: WriteRequest) {
    this.#check(offsetBytes, data.length);
    try {
      return await this.#take(data, request);
    } catch (error) {
      if (!isInterruption(error)) void this.abort(error);
      throw error;
    }
  }

  async #take(data: Uint8Array, { unique, leaving = NEVER }: WriteRequest): Promise<number> {
    let rest = data;
    while (rest.length > 0) {
      await this.#sendFull(leaving);
      const piece = rest.subarray(0, this.#current.roomBytes);
      if (piece.length === 0) break;
      const append = () => this.#current.append(piece, unique, leaving);
      if ((await this.#deps.room.run(this, append, leaving)) !== true) break;
      this.#sizeBytes += piece.length;
      rest = rest.subarray(piece.length);
    }
    await this.#sendFull(leaving);
    this.#lastWrite.answered(rest.length > 0, leaving.aborted);
    if (rest.length > 0 && rest.length === data.length) throw this.#lastWrite.interrupt();
    return data.length - rest.length;
  }

  /** Sends a part that is full, unless the caller leaves before it can be sent. */
  async #sendFull(leaving: AbortSignal): Promise<void> {
    if (this.#current.isFull) await this.#sendCurrent(leaving);
  }

  /** A write that can't be kept ends the upload: a hole can't be filled later. */
  #check(offsetBytes: number, sizeBytes: number): void {
    if (this.#failure !== undefined) throw this.#failure;
    const failure = this.#problemWith(offsetBytes, sizeBytes);
    if (failure === undefined) return;
    void this.abort(failure);
    throw failure;
  }

  #problemWith(offsetBytes: number, sizeBytes: number): PosixFailure | undefined {
    if (this.#completion !== undefined) {
      return new PosixFailure("EIO", `${this.#key}: written after its upload was completed`);
    }
    if (offsetBytes !== this.#sizeBytes) {
      const message = `${this.#key}: write at ${offsetBytes}, expected at ${this.#sizeBytes}`;
      return new PosixFailure("EINVAL", message);
    }
    const roomBytes = this.#deps.partSizes.roomBytes(this.#parts.length);
    if (this.#current.filledBytes + sizeBytes <= roomBytes) return undefined;
    return this.#tooLarge();
  }

  #tooLarge(): PosixFailure {
    const { countMax } = this.#deps.partSizes;
    return new PosixFailure("EFBIG", `${this.#key}: larger than ${countMax} parts`);
  }

  /** Sends the current part, unless the caller leaves before it can be sent. */
  async #sendCurrent(leaving: AbortSignal = NEVER): Promise<void> {
    while (this.#inFlight.count >= PARTS_IN_FLIGHT_MAX) {
      await this.#inFlight.next(leaving);
      if (leaving.aborted) return;
    }
    if (this.#failure !== undefined) throw this.#failure;
    // An earlier engine may have had larger parts.
    if (this.#parts.length >= this.#deps.partSizes.countMax) throw this.#tooLarge();
    const segment = this.#current.detach();
    if (segment !== undefined) this.#startPart(this.#parts.length + 1, segment);
  }

  #canSend(): boolean {
    const isOver = this.#completion !== undefined || this.#failure !== undefined;
    return !isOver && this.#parts.length < this.#deps.partSizes.countMax;
  }

  #sendIdle(): void {
    const sent = this.#turns.take(async () => {
      if (this.#current.isSendable) await this.#sendCurrent(this.#abort.signal);
    });
    void sent.catch(() => undefined).finally(() => this.#deps.spool.becameIdle());
  }

  #startCurrentPart(): CurrentPart {
    const partNumber = () => this.#parts.length + 1;
    return new CurrentPart(this.#deps, {
      partNumber,
      bytesBefore: () => this.#sizeBytes - this.#current.filledBytes,
      isBusy: () => this.#turns.busy,
      canSend: () => this.#canSend(),
      failed: this.#abort.signal,
      noteSegment: (at, size) =>
        this.#notes.note({ is: "segment", handle: this.#handle, part: partNumber(), at, size }),
      sendEarly: (leaving) => this.#sendCurrent(leaving),
      sendIdle: () => this.#sendIdle(),
    });
  }

  #startPart(partNumber: number, segment: SummedSegment): void {
    this.#sending.set(partNumber, segment);
    this.#deps.spool.send(segment.segment);
    const sent = this.#multipart.send(partNumber, segment, this.#abort.signal);
    // The part is noted as sent before its memory is returned: else a successor would claim a
    // segment that belongs to another upload by then.
    const part = sent
      .catch((error: unknown) => this.#failPart(error))
      .finally(() => {
        this.#sending.delete(partNumber);
        this.#deps.spool.give(segment.segment);
      });
    this.#inFlight.add(part);
    this.#parts[partNumber - 1] = part;
  }

  async #complete(): Promise<{ etag: string }> {
    try {
      await this.#turns.idle;
      if (this.#failure !== undefined) throw this.#failure;
      const stored =
        this.#parts.length > 0 ? await this.#completeParts() : await this.#completeWhole();
      this.#lastWrite.uploadEnded();
      return stored;
    } catch (error) {
      await this.abort(error);
      throw error;
    }
  }

  async #completeWhole(): Promise<{ etag: string }> {
    const stored = await this.#wholePut.send(this.#current.segment, this.#abort.signal);
    const { segment } = this.#current;
    if (segment !== undefined) await this.#deps.onStored(segment.bytes);
    return stored;
  }

  async #completeParts(): Promise<{ etag: string }> {
    if (this.#current.filledBytes > 0) await this.#sendCurrent();
    return this.#multipart.complete(await Promise.all(this.#parts), this.#abort.signal);
  }

  #failPart(error: unknown): never {
    void this.abort(error);
    throw error;
  }

  #fail(why: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = why;
    this.#notes.noteFailure(this.#handle, why);
    this.#abort.abort(why); // a write that waits for memory leaves before the memory is returned
    // A PUT of these bytes may be under way: then they stay until the handle is released.
    if (this.#completion === undefined) this.close();
  }
}

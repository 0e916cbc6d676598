import { Failure } from "../base/failure.ts";
import type { SavedUpload } from "../journal/saved-state.ts";
import { newNonce } from "../s3/nonce.ts";
import type { UploadedPart } from "../s3/object-store.ts";
import type { PartHolder } from "./journal-room.ts";
import { PosixFailure } from "./posix-failure.ts";
import type { SummedSegment } from "./summed-segment.ts";
import type { UploadDeps } from "./upload-deps.ts";
import type { UploadNotes } from "./upload-notes.ts";

const SLOW_BEGIN_MS = 1_000;
const NEVER = new AbortController().signal;

export interface MultipartOwner {
  readonly handle: number;
  readonly key: string;
  readonly upload: PartHolder;
}

/** What S3 collects the parts of an object under: asked for when there is a first one. */
export class Multipart {
  readonly #deps: UploadDeps;
  readonly #notes: UploadNotes;
  readonly #handle: number;
  readonly #key: string;
  readonly #upload: PartHolder;
  #id: Promise<string> | undefined;
  /** From when S3 is asked for an id until the upload has ended. */
  #use: Disposable | undefined;
  /** Set while S3 may have an upload whose id is not known: when it was asked for one. */
  #strayMs: number | undefined;
  /** Of the object that S3 makes of the parts. */
  #nonce: string | undefined;

  constructor(
    deps: UploadDeps,
    notes: UploadNotes,
    { handle, key, upload }: MultipartOwner,
    { creating, created, ending }: SavedUpload,
  ) {
    this.#deps = deps;
    this.#notes = notes;
    this.#handle = handle;
    this.#key = key;
    this.#upload = upload;
    this.#nonce = creating?.nonce;
    const isLive = creating !== undefined && ending?.is !== "completed";
    if (isLive) this.#use = deps.discarded.use(key);
    if (created === undefined) this.#strayMs = creating?.sinceMs;
    else this.#id = Promise.resolve(created.uploadId);
  }

  async send(
    part: number,
    { bytes, sum, segment }: SummedSegment,
    signal: AbortSignal,
  ): Promise<UploadedPart> {
    const by = segment.knowsWriters ? { by: segment.writers } : {};
    const uploadId = await this.#begun();
    const { store } = this.#deps;
    const sent = await store
      .uploadPart(this.#key, uploadId, part, bytes, signal, sum)
      .catch((error: unknown) => this.#fail(error));
    const { etag, checksum } = sent;
    const more = { size: bytes.length, ...by, ...(checksum === undefined ? {} : { checksum }) };
    this.#notes.note({ is: "sent", handle: this.#handle, part, etag, ...more });
    return sent;
  }

  /** Makes one object of all its parts. */
  async complete(parts: readonly UploadedPart[], signal: AbortSignal): Promise<{ etag: string }> {
    const uploadId = await this.#begun();
    signal.throwIfAborted();
    this.#notes.note({ is: "completing", handle: this.#handle });
    const nonce = this.#nonce ?? "";
    const completed = await this.#deps.store
      .completeUpload(this.#key, uploadId, parts, nonce, signal)
      .catch((error: unknown) => this.#fail(error));
    this.#use?.[Symbol.dispose]();
    return completed;
  }

  /** Removes the parts that were sent. */
  async discard(): Promise<void> {
    const { discarded } = this.#deps;
    const uploadId = await this.#id?.catch(() => undefined);
    this.#use?.[Symbol.dispose]();
    if (uploadId !== undefined) await discarded.discard(this.#key, uploadId);
    else if (this.#strayMs !== undefined) await discarded.discardStrays(this.#key, this.#strayMs);
  }

  /** An upload that is gone is no missing file: its writer would take ENOENT for one. */
  #fail(error: unknown): never {
    const isGone = error instanceof Failure && error.kind === "absent";
    if (!isGone) throw error;
    const cause = "another client or a rule of the bucket has ended it";
    throw new PosixFailure("EIO", `${this.#key}: its upload is gone, ${cause} (${error.message})`);
  }

  #begun(): Promise<string> {
    this.#id ??= this.#begin();
    return this.#id;
  }

  async #begin(): Promise<string> {
    const { store, discarded, requestLimitMs } = this.#deps;
    this.#use ??= discarded.use(this.#key);
    if (this.#strayMs !== undefined) {
      discarded.suspect(this.#key, this.#strayMs);
      const signal = AbortSignal.timeout(requestLimitMs);
      await store.abortStrays(this.#key, this.#strayMs, signal);
    }
    const nonce = newNonce();
    const sinceMs = await this.#noteCreating(nonce);
    const begunMs = performance.now();
    // Not ended when the upload is aborted: without an id it could not be removed.
    const signal = AbortSignal.timeout(requestLimitMs);
    const uploadId = await store.createUpload(this.#key, nonce, signal);
    this.#strayMs = undefined;
    // Not the first attempt, most likely: an earlier one may reach S3 yet.
    const isSlow = performance.now() - begunMs > SLOW_BEGIN_MS;
    if (isSlow) discarded.suspect(this.#key, sinceMs);
    this.#notes.note({ is: "created", handle: this.#handle, uploadId });
    return uploadId;
  }

  /** Waits for room in the journal. */
  async #noteCreating(nonce: string): Promise<number> {
    const { room, store } = this.#deps;
    let sinceMs = 0;
    const note = () => {
      sinceMs = store.earliestNowMs();
      this.#notes.note({ is: "creating", handle: this.#handle, nonce, sinceMs });
    };
    await room.run(this.#upload, note, NEVER);
    this.#nonce = nonce;
    this.#strayMs = sinceMs;
    return sinceMs;
  }
}

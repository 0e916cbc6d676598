import type { SavedUpload } from "../journal/saved-state.ts";
import { newNonce } from "../s3/nonce.ts";
import type { UploadedPart } from "../s3/object-store.ts";
import type { SummedSegment } from "./summed-segment.ts";
import type { UploadDeps } from "./upload.ts";
import type { UploadNotes } from "./upload-notes.ts";

const BEGIN_LIMIT_MS = 120_000;

/** What S3 collects the parts of an object under: asked for when there is a first one. */
export class Multipart {
  readonly #deps: UploadDeps;
  readonly #notes: UploadNotes;
  readonly #handle: number;
  readonly #key: string;
  #id: Promise<string> | undefined;
  /** Since when a lost answer may have left an upload behind. */
  #strayMs: number | undefined;
  /** Of the object that S3 makes of the parts. */
  #nonce: string | undefined;

  constructor(
    deps: UploadDeps,
    notes: UploadNotes,
    { handle, key }: { readonly handle: number; readonly key: string },
    { creating, created }: SavedUpload,
  ) {
    this.#deps = deps;
    this.#notes = notes;
    this.#handle = handle;
    this.#key = key;
    this.#nonce = creating?.nonce;
    if (created === undefined) this.#strayMs = creating?.sinceMs;
    else this.#id = Promise.resolve(created.uploadId);
  }

  async send(
    part: number,
    { bytes, sum }: SummedSegment,
    signal: AbortSignal,
  ): Promise<UploadedPart> {
    const uploadId = await this.#begun();
    const { store } = this.#deps;
    const sent = await store.uploadPart(this.#key, uploadId, part, bytes, signal, sum);
    const { etag, checksum } = sent;
    const more = { size: bytes.length, ...(checksum === undefined ? {} : { checksum }) };
    this.#notes.note({ is: "sent", handle: this.#handle, part, etag, ...more });
    return sent;
  }

  /** Makes one object of all its parts. */
  async complete(parts: readonly UploadedPart[], signal: AbortSignal): Promise<{ etag: string }> {
    const uploadId = await this.#begun();
    this.#notes.note({ is: "completing", handle: this.#handle });
    const nonce = this.#nonce ?? "";
    return this.#deps.store.completeUpload(this.#key, uploadId, parts, nonce, signal);
  }

  /** Parts that were sent are removed. */
  async discard(): Promise<void> {
    const { store, discard } = this.#deps;
    try {
      if (this.#id !== undefined) await discard(this.#key, await this.#id);
      else if (this.#strayMs !== undefined) {
        await store.abortStrays(this.#key, this.#strayMs, AbortSignal.timeout(BEGIN_LIMIT_MS));
      }
    } catch {
      // It never began, or S3 is away: the bucket's lifecycle rule is the last resort.
    }
  }

  #begun(): Promise<string> {
    this.#id ??= this.#begin();
    return this.#id;
  }

  async #begin(): Promise<string> {
    const { store } = this.#deps;
    // Not ended when the upload is aborted: without an id it could not be removed.
    const signal = AbortSignal.timeout(BEGIN_LIMIT_MS);
    if (this.#strayMs !== undefined) await store.abortStrays(this.#key, this.#strayMs, signal);
    const nonce = newNonce();
    this.#nonce = nonce;
    this.#notes.note({ is: "creating", handle: this.#handle, nonce, sinceMs: Date.now() });
    const uploadId = await store.createUpload(this.#key, nonce, signal);
    this.#notes.note({ is: "created", handle: this.#handle, uploadId });
    return uploadId;
  }
}

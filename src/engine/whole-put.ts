import { newNonce } from "../s3/nonce.ts";
import type { SummedSegment } from "./summed-segment.ts";
import type { UploadDeps } from "./upload-deps.ts";
import type { UploadNotes } from "./upload-notes.ts";

/** A file that fits into one part: it becomes an object by one PUT. */
export class WholePut {
  readonly #deps: UploadDeps;
  readonly #notes: UploadNotes;
  readonly #handle: number;
  readonly #key: string;
  /** Of a PUT that may have happened. */
  #nonce: string | undefined;

  constructor(
    deps: UploadDeps,
    notes: UploadNotes,
    { handle, key }: { readonly handle: number; readonly key: string },
  ) {
    this.#deps = deps;
    this.#notes = notes;
    this.#handle = handle;
    this.#key = key;
  }

  /** An earlier engine may have sent it. */
  restore(nonce: string): void {
    this.#nonce = nonce;
  }

  /** The next PUT is another one, of more bytes. */
  renew(): void {
    this.#nonce = undefined;
  }

  /** A PUT that an earlier engine may have done is sent again unless its object is still there. */
  async send(part: SummedSegment | undefined, signal: AbortSignal): Promise<{ etag: string }> {
    const { store, spool } = this.#deps;
    const done = this.#nonce && (await store.findOwn(this.#key, this.#nonce, signal));
    if (done !== undefined && done !== "") return { etag: done };
    const nonce = newNonce();
    this.#notes.note({ is: "putting", handle: this.#handle, nonce });
    if (part === undefined) return store.put(this.#key, new Uint8Array(), nonce, signal);
    spool.send(part.segment);
    try {
      return await store.put(this.#key, part.bytes, nonce, signal, part.sum);
    } finally {
      spool.sent(part.segment);
    }
  }
}

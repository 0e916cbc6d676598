import type { ObjectReader, RangeRead } from "../s3/object-store.ts";
import type { DiskCache } from "./disk-cache.ts";
import { BLOCK_BYTES, identify } from "./piece-file.ts";
import type { ObjectIdentity } from "./piece-file.ts";

/**
 * A bucket whose objects are kept on a disk as they are read. Exactly what was asked for is
 * fetched and kept, no more: a reader at random costs S3 what it cost before. A changed object
 * has another ETag, so that nothing here can be out of date.
 */
export class CachedReader implements ObjectReader {
  readonly #inner: ObjectReader;
  readonly #cache: DiskCache;
  readonly #name: string;

  /** The name tells apart what different buckets and endpoints have under the same key. */
  constructor(inner: ObjectReader, cache: DiskCache, name: string) {
    this.#inner = inner;
    this.#cache = cache;
    this.#name = name;
  }

  async read(range: RangeRead, signal: AbortSignal): Promise<void> {
    const { key, etag, offsetBytes, into } = range;
    const object = identify(this.#name, key, etag);
    const endBytes = offsetBytes + into.length;
    let at = offsetBytes;
    while (at < endBytes) {
      signal.throwIfAborted();
      const to = this.#missingUntil(object, at, endBytes);
      at =
        to === at
          ? await this.#readBlock(object, range, at)
          : await this.#fetch(object, range, { from: at, to }, signal);
    }
  }

  /** To the next block that is on the disk, as far as the range touches it. */
  #missingUntil(object: ObjectIdentity, fromBytes: number, endBytes: number): number {
    let at = fromBytes;
    while (at < endBytes) {
      const next = blockEnd(at, endBytes);
      if (this.#cache.has(object, { offsetBytes: at, sizeBytes: next - at })) break;
      at = next;
    }
    return at;
  }

  /** Returns how far the range is filled now: not at all, if the disk has disappointed us. */
  async #readBlock(object: ObjectIdentity, range: RangeRead, from: number): Promise<number> {
    const { offsetBytes, into, onFilled } = range;
    const to = blockEnd(from, offsetBytes + into.length);
    const target = into.subarray(from - offsetBytes, to - offsetBytes);
    const span = { offsetBytes: from, sizeBytes: target.length };
    if (!(await this.#cache.read(object, span, target))) return from;
    onFilled(to - offsetBytes);
    return to;
  }

  async #fetch(
    object: ObjectIdentity,
    range: RangeRead,
    { from, to }: { readonly from: number; readonly to: number },
    signal: AbortSignal,
  ): Promise<number> {
    const { key, etag, objectBytes, offsetBytes, into } = range;
    const target = into.subarray(from - offsetBytes, to - offsetBytes);
    const onFilled = (count: number) => range.onFilled(from - offsetBytes + count);
    const missing = { key, etag, objectBytes, offsetBytes: from, into: target, onFilled };
    await this.#inner.read(missing, signal);
    // Copied now: when we return, the memory belongs to the next reader.
    for (let at = from; at < to; at = blockEnd(at, to)) {
      this.#cache.offer(object, at, target.subarray(at - from, blockEnd(at, to) - from));
    }
    return to;
  }
}

function blockEnd(atBytes: number, endBytes: number): number {
  return Math.min(endBytes, (Math.floor(atBytes / BLOCK_BYTES) + 1) * BLOCK_BYTES);
}

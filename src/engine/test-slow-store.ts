import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import type { RangeRead } from "../s3/object-store.ts";
import type { BufferPool } from "./buffer-pool.ts";
import type { ReadStream } from "./read-stream.ts";

export const MIB = 1 << 20;
export const OBJECT_BYTES = 21 * MIB + 123;
export const SIZES = { partBytes: 8 * MIB, longGets: true };
const OBJECT = Buffer.alloc(OBJECT_BYTES);
for (let at = 0; at < OBJECT_BYTES; at += 4)
  OBJECT.writeUInt32LE(at, Math.min(at, OBJECT_BYTES - 4));

/** For tests: bytes come in pieces over several turns, and some fetches fail half-way. */
export class SlowStore extends MemoryStore {
  fetches = 0;
  fetchedBytes = 0;
  /** Requests to S3: a read that continues where another one has ended is no further request. */
  readonly gets: { readonly fromBytes: number; readonly toBytes: number }[] = [];
  readonly #leftAt = new Map<AbortSignal, number>();
  turnsEach = 1;
  failing: (fetch: number) => boolean = () => false;

  override async read(range: RangeRead, signal?: AbortSignal): Promise<void> {
    const fetch = this.fetches++;
    this.fetchedBytes += range.into.length;
    const step = Math.ceil(range.into.length / 3);
    const { goesOn, offsetBytes } = range;
    const endBytes = offsetBytes + range.into.length;
    if (goesOn === undefined || this.#leftAt.get(goesOn.until) !== offsetBytes) {
      const toBytes = Math.max(endBytes, goesOn?.endBytes ?? 0);
      this.gets.push({ fromBytes: offsetBytes, toBytes });
    }
    if (goesOn !== undefined && !goesOn.until.aborted) this.#leftAt.set(goesOn.until, endBytes);
    for (let filled = 0; filled < range.into.length;) {
      for (let turn = 0; turn < this.turnsEach; turn++) await new Promise(setImmediate);
      signal?.throwIfAborted();
      if (filled > 0 && this.failing(fetch)) throw new Failure("remote", "injected");
      const end = Math.min(filled + step, range.into.length);
      OBJECT.copy(range.into, filled, range.offsetBytes + filled, range.offsetBytes + end);
      filled = end;
      range.onFilled(filled);
    }
  }
}

export async function readAndCompare(
  stream: ReadStream,
  offset: number,
  size: number,
): Promise<"ok" | "failed"> {
  try {
    const lent = await stream.read(offset, size);
    await new Promise(setImmediate); // the reply is on its way: the memory must not change
    const got = Buffer.concat(lent.chunks);
    assert(got.equals(OBJECT.subarray(offset, offset + size)), `at ${offset}, ${size} bytes`);
    lent.release();
    return "ok";
  } catch (error) {
    if (error instanceof Failure && error.message === "injected") return "failed";
    throw error;
  }
}

/** Fails unless all memory comes back to the pool. */
export async function drained(pool: BufferPool): Promise<void> {
  for (let turn = 0; turn < 50 && pool.usedBytes > 0; turn++) await new Promise(setImmediate);
  assert.equal(pool.usedBytes, 0, "memory that did not come back");
}

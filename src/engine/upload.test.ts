import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { DiscardedUploads } from "./discarded-uploads.ts";
import { JournalRoom } from "./journal-room.ts";
import { PartSizes } from "./part-sizes.ts";
import { PosixFailure } from "./posix-failure.ts";
import { SpoolQueue } from "./spool-queue.ts";
import { TestMemory } from "./test-memory.ts";
import { Upload } from "./upload.ts";

const PART_BYTES = 1000;

/** Each call takes some turns; the n-th one fails. */
class FlakyStore extends MemoryStore {
  calls = 0;
  failsAt = -1;
  inFlight = 0;
  inFlightMax = 0;

  async #trip(): Promise<void> {
    const call = this.calls++;
    this.inFlight += 1;
    this.inFlightMax = Math.max(this.inFlightMax, this.inFlight);
    for (let turn = 0; turn <= call % 3; turn++) await new Promise(setImmediate);
    this.inFlight -= 1;
    if (call === this.failsAt) throw new Failure("remote", "injected");
  }
  override async put(...args: Parameters<MemoryStore["put"]>) {
    await this.#trip();
    return super.put(...args);
  }
  override async createUpload(key: string) {
    await this.#trip();
    return super.createUpload(key);
  }
  override async uploadPart(...args: Parameters<MemoryStore["uploadPart"]>) {
    await this.#trip();
    return super.uploadPart(...args);
  }
}

const onStored = () => Promise.resolve();

function start(store: MemoryStore, limitBytes = 1 << 20) {
  const { journal, spool: memory } = new TestMemory().begin(limitBytes);
  const spool = new SpoolQueue(memory, PART_BYTES);
  const discarded = new DiscardedUploads(store, journal);
  const room = new JournalRoom(journal, () => []);
  const sizes = { partSizes: new PartSizes(PART_BYTES), requestLimitMs: 120_000 };
  const deps = { store, journal, room, spool, discarded, ...sizes, onStored };
  return { spool: memory, discarded, upload: new Upload(deps, 1, "key") };
}

async function allOrNothing(sizes: readonly number[], failsAt: number, limitBytes: number) {
  const store = new FlakyStore();
  store.failsAt = failsAt;
  const { spool, upload } = start(store, limitBytes);
  const written: Buffer[] = [];
  let offset = 0;
  let failed = false;
  try {
    for (const [index, size] of sizes.entries()) {
      const data = Buffer.alloc(size, index + 1);
      written.push(Buffer.from(data));
      assert.equal(await upload.write(offset, data), size);
      data.fill(0xee); // the request's slot is used again at once
      offset += size;
    }
    await upload.complete();
  } catch (error) {
    assert(error instanceof Failure && error.message === "injected");
    failed = true;
    await upload.abort(error);
  }
  upload.close();
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  assert.deepEqual(store.body("key"), failed ? undefined : Buffer.concat(written));
  assert.equal(failed, failsAt >= 0 && failsAt < store.calls);
  assert.equal(store.unfinishedUploads, 0);
  assert.equal(spool.usedBytes, 0);
  assert(store.inFlightMax <= 9, `${store.inFlightMax} requests at once`);
}

test("whatever the sizes and the failures: all bytes are there, or an error and nothing", async () => {
  const sizes = fc.array(fc.constantFrom(1, 10, 400, 999, 1000, 1001, 3500), { maxLength: 20 });
  const property = fc.asyncProperty(
    sizes,
    fc.integer({ min: -8, max: 8 }),
    fc.constantFrom(2000, 1 << 20),
    allOrNothing,
  );
  await fc.assert(property, { numRuns: 300 });
});

/** Like a program that goes on after a signal: with what was not taken, from where that ended. */
async function writeDespiteSignals(upload: Upload, data: Buffer, turns: () => number) {
  const from = upload.sizeBytes;
  for (let at = 0; at < data.length;) {
    const leaving = new AbortController();
    const rest = data.subarray(at);
    const writing = (async () => upload.write(from + at, rest, { leaving: leaving.signal }))();
    const interrupting = (async () => {
      for (let turn = turns(); turn > 0; turn--) await new Promise(setImmediate);
      leaving.abort();
    })();
    try {
      at += await writing;
      assert(upload.wasInterrupted || at === data.length);
    } catch (error) {
      assert(error instanceof PosixFailure && error.code === "EINTR");
      assert(upload.wasInterrupted);
    }
    await interrupting;
  }
}

test("whenever its writers are interrupted, no byte is lost or taken twice", async () => {
  const sizes = fc.array(fc.constantFrom(10, 999, 1000, 3500, 20_000), { maxLength: 8 });
  const patience = fc.infiniteStream(fc.nat({ max: 6 }));
  const property = fc.asyncProperty(sizes, patience, async (chosen, turns) => {
    const store = new FlakyStore();
    const { spool, upload } = start(store, 3000);
    const written: Buffer[] = [];
    for (const [index, size] of chosen.entries()) {
      const data = Buffer.alloc(size);
      for (let at = 0; at < size; at++) data[at] = index + at;
      await writeDespiteSignals(upload, data, () => turns.next().value ?? 0);
      written.push(data);
    }
    await upload.complete();
    upload.close();
    assert.deepEqual(store.body("key"), Buffer.concat(written));
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    assert.equal(spool.usedBytes, 0);
  });
  await fc.assert(property, { numRuns: 200 });
});

const isInvalid = (error: unknown) => error instanceof PosixFailure && error.code === "EINVAL";

test("a write out of order is EINVAL, now and at the end", async () => {
  const { upload } = start(new MemoryStore());
  await upload.write(0, Buffer.alloc(10));
  assert.throws(() => upload.write(5, Buffer.alloc(1)), isInvalid);
  await assert.rejects(upload.complete(), isInvalid);
});

test("an object of more than 10,000 parts is EFBIG", async () => {
  const { upload } = start(new MemoryStore());
  const write = async () => upload.write(0, Buffer.alloc(10_000 * PART_BYTES + 1));
  await assert.rejects(write, (error) => error instanceof PosixFailure && error.code === "EFBIG");
});

test("an upload whose beginning was lost is looked for by the clock of S3", async () => {
  const HOUR_MS = 3_600_000;
  const searches: number[] = [];
  class AheadStore extends MemoryStore {
    override earliestNowMs() {
      return super.earliestNowMs() + HOUR_MS;
    }
    override createUpload(): Promise<string> {
      return Promise.reject(new Failure("remote", "the answer was lost"));
    }
    override async abortStrays(_key: string, sinceMs = 0) {
      searches.push(sinceMs);
    }
  }
  const beganMs = Date.now() + HOUR_MS;
  const { upload } = start(new AheadStore());
  await assert.rejects(async () => {
    await upload.write(0, Buffer.alloc(PART_BYTES * 2));
    await upload.complete();
  }, /was lost/);
  assert.equal(searches.length, 1);
  const aheadMs = (searches[0] ?? 0) - beganMs;
  assert(aheadMs >= 0 && aheadMs < HOUR_MS, `${aheadMs} ms after the beginning`);
});

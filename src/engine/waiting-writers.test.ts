import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { Spool } from "../journal/spool.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { DiscardedUploads } from "./discarded-uploads.ts";
import { JournalRoom } from "./journal-room.ts";
import { PartSizes } from "./part-sizes.ts";
import { SpoolQueue } from "./spool-queue.ts";
import { TestMemory } from "./test-memory.ts";
import { Upload } from "./upload.ts";

const MIB = 1 << 20;
const PART_BYTES = 8 * MIB;
const TURNS = 50;

/** Resolves when everything that does not wait for S3 has been done. */
async function untilCalm(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise(setImmediate);
}

class SlowStore extends MemoryStore {
  /** Of all parts. */
  readonly sizes: number[] = [];
  #gate: PromiseWithResolvers<void> | undefined;

  override async uploadPart(...args: Parameters<MemoryStore["uploadPart"]>) {
    this.sizes.push(args[3].length);
    await this.#gate?.promise;
    return super.uploadPart(...args);
  }

  hold(): void {
    this.#gate ??= Promise.withResolvers();
    this.#gate.promise.catch(() => undefined); // perhaps no part waits for it
  }

  letGo(failure?: Failure): void {
    const gate = this.#gate;
    this.#gate = undefined;
    if (failure === undefined) gate?.resolve();
    else gate?.reject(failure);
  }
}

/** Files that share the memory for writes. */
class Files {
  readonly store = new SlowStore();
  readonly spool: Spool;
  readonly queue: SpoolQueue;
  readonly #deps;
  #handle = 0;

  constructor(limitMib: number, hardMib: number, partSizes = new PartSizes(PART_BYTES)) {
    const { journal } = new TestMemory().begin();
    const limits = { limitBytes: limitMib * MIB, hardBytes: hardMib * MIB };
    this.spool = new Spool(Buffer.alloc(256 * MIB), limits);
    this.queue = new SpoolQueue(this.spool, PART_BYTES);
    this.#deps = {
      store: this.store,
      journal,
      spool: this.queue,
      room: new JournalRoom(journal, () => []),
      discarded: new DiscardedUploads(this.store, journal),
      partSizes,
      requestLimitMs: 120_000,
      onStored: async () => undefined,
    };
  }

  open(): Upload {
    this.#handle += 1;
    return new Upload(this.#deps, this.#handle, `key-${this.#handle}`);
  }
}

async function fill(file: Upload, sizeBytes: number, stepBytes = MIB / 4): Promise<void> {
  for (let left = sizeBytes; left > 0; left -= stepBytes) {
    await file.write(file.sizeBytes, Buffer.alloc(Math.min(stepBytes, left), 1));
  }
}

async function endOf(file: Upload): Promise<void> {
  void file.abort(new Error("closed"));
  file.close();
  await untilCalm();
}

test("a file that fails while its write waits for memory returns all of it", async () => {
  const files = new Files(40, 64);
  for (let round = 0; round < 3; round++) {
    const idle = Array.from({ length: 7 }, () => files.open());
    for (const file of idle) await fill(file, 4 * MIB);
    files.store.hold();
    const failing = files.open();
    const filled = fill(failing, 13 * MIB).catch((error: unknown) => error);
    await untilCalm();
    assert.equal(files.queue.waiting, 1);
    files.store.letGo(new Failure("remote", "S3 is away"));
    assert((await filled) instanceof Failure);
    for (const file of [failing, ...idle]) await endOf(file);
    assert.equal(files.spool.usedBytes, 0, "no file is open");
  }
});

test("a file that got memory and idles gives it up for the next that waits", async () => {
  const files = new Files(12, 16);
  await fill(files.open(), 4 * MIB);
  files.store.hold();
  const sent = fill(files.open(), 8 * MIB);
  await untilCalm();
  const [first, second] = [files.open(), files.open()];
  const writes = [first, second].map((file) => fill(file, MIB, MIB));
  await untilCalm();
  assert.equal(files.queue.waiting, 2);
  files.store.letGo();
  await Promise.all([sent, ...writes]);
});

test("an idle file is sent for others although a synced one, which can't be, is older", async () => {
  const files = new Files(14, 16);
  const synced = files.open();
  await fill(synced, 5.25 * MIB);
  await synced.complete();
  await fill(files.open(), 5.25 * MIB);
  await fill(files.open(), 6 * MIB);
  assert.equal(files.queue.waiting, 0);
});

test("however short memory is, a file can have the size that is guaranteed", async () => {
  const sizes = { minBytes: 5 * MIB, countMax: 10, writeBytesMax: MIB };
  const partSizes = new PartSizes(PART_BYTES, sizes);
  const files = new Files(12, 24, partSizes);
  const all = Array.from({ length: 4 }, () => files.open());
  await Promise.all(all.map((file) => fill(file, partSizes.guaranteedBytes, MIB)));
  await Promise.all(all.map((file) => file.complete()));
  assert.equal(files.store.body("key-1")?.length, partSizes.guaranteedBytes);
  assert(files.store.sizes.includes(6 * MIB), "memory was short");
  for (const file of all) file.close();
  assert.equal(files.spool.usedBytes, 0);
});

/** The next thing that a program does with one of the files. */
const anyStep = fc.record({
  do: fc.constantFrom("open", "write", "write", "write", "hold", "let go", "fail", "close"),
  which: fc.nat({ max: 100 }),
  sizeBytes: fc.constantFrom(1, 100_000, MIB, 3 * MIB, 6 * MIB),
});

test("whatever fails or idles, no memory is lost and the next file can be written", async () => {
  const property = fc.asyncProperty(
    fc.array(anyStep, { minLength: 20, maxLength: 60 }),
    async (steps) => {
      const files = new Files(12, 24);
      const open: Upload[] = [];
      for (const { do: verb, which, sizeBytes } of steps) {
        const file = open[which % Math.max(1, open.length)];
        if (verb === "open") open.push(files.open());
        else if (verb === "hold") files.store.hold();
        else if (verb === "let go") files.store.letGo();
        else if (verb === "fail") files.store.letGo(new Failure("remote", "away"));
        else if (file !== undefined && verb === "write") fill(file, sizeBytes, MIB).catch(() => 0);
        else if (file !== undefined) await endOf(file);
        await new Promise(setImmediate);
      }
      files.store.letGo();
      for (const file of open) await endOf(file);
      await untilCalm();
      assert.equal(files.queue.waiting, 0);
      assert.equal(files.spool.usedBytes, 0);
      await fill(files.open(), 9 * MIB);
    },
  );
  await fc.assert(property, { numRuns: 30 });
});

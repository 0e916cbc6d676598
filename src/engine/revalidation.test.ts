import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import type { ListQuery, RangeRead } from "../s3/object-store.ts";
import { Engine } from "./engine.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { Inode } from "./inode.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const HOUR_MS = 3_600_000;
const [O_RDONLY, O_WRONLY_TRUNC, O_DIRECT] = [0, 0o1001, 0o40000];
const CONFIG = { ...TEST_CONFIG, reads: { partBytes: 1 << 20, longGets: true } };
const DEFAULTS = { ...CONFIG, metadataTtlMs: HOUR_MS };
const TRUSTING = { ...DEFAULTS, revalidatesOpens: false };
const [PID, OTHER_PID] = [1, 2];
/** Longer than an answer of S3 counts as one of the same open(2). */
const LATER_MS = 5;

class CountingStore extends MemoryStore {
  requests: string[] = [];
  /** Of objects in the archive, what a HEAD says; a listing never knows. */
  archived: boolean | undefined;
  /** GETs that are asked now are answered later, with the bytes of now. */
  beforeAnswer: Promise<void> | undefined;

  override async head(key: string) {
    this.requests.push(`HEAD ${key}`);
    const found = await super.head(key);
    return found && { ...found, archived: this.archived === true };
  }

  override async list(query: ListQuery) {
    this.requests.push("LIST");
    const page = await super.list(query);
    const archived = this.archived !== undefined;
    return { ...page, objects: page.objects.map((object) => ({ ...object, archived })) };
  }

  override async read(range: RangeRead) {
    this.requests.push(`GET ${range.key}`);
    const { beforeAnswer } = this;
    if (beforeAnswer === undefined) return super.read(range);
    const into = Buffer.alloc(range.into.length);
    await super.read({ ...range, into, onFilled: () => undefined }); // as it is now
    await beforeAnswer;
    into.copy(range.into);
    range.onFilled(into.length);
  }

  take(): string[] {
    return this.requests.splice(0);
  }
}

class Bench {
  readonly store = new CountingStore();
  readonly engine: Engine;

  constructor(config: EngineConfig) {
    this.engine = new Engine(this.store, config, new TestMemory().begin());
  }

  /** All names of the root, as `ls -l` makes them known. */
  async list(): Promise<Inode[]> {
    const handle = this.engine.openDirectory(ROOT_NODEID);
    const inodes: Inode[] = [];
    for (let index = 0; ; index++) {
      const stream = await this.engine.listDirectory(handle, index, false);
      const item = stream.item(index);
      const inode = item && stream.enter(item, this.engine.table);
      if (inode === undefined || typeof inode === "string") break;
      inode.lookups += 1;
      inodes.push(inode);
    }
    this.engine.releaseDirectory(handle);
    return inodes;
  }

  async lookup(name: string): Promise<Inode> {
    const inode = await this.engine.lookup(ROOT_NODEID, name, PID);
    assert(inode !== undefined);
    inode.lookups += 1;
    return inode;
  }

  async open(inode: Inode, flags = O_RDONLY, pid = PID): Promise<number> {
    return (await this.engine.open(inode.nodeid, flags, pid)).handle;
  }

  /** The first READ, of all of it. */
  async read(inode: Inode): Promise<string> {
    const handle = await this.open(inode);
    const lent = await this.engine.read(handle, 0, 2 << 20);
    const text = Buffer.concat(lent.chunks).toString();
    lent.release();
    await this.engine.release(handle);
    return text;
  }
}

/** The clock stands still: a slow machine must not look like a late open. */
let clockMs = 0;
mock.method(performance, "now", () => clockMs);
const later = () => (clockMs += LATER_MS);
const isStale = (error: unknown) => error instanceof Failure && error.kind === "stale";
const isDenied = (error: unknown) => error instanceof Failure && error.kind === "denied";

test("a small file that was listed costs the GET of its bytes, and later a HEAD", async () => {
  const bench = new Bench(DEFAULTS);
  for (const name of ["a", "b", "c"]) await bench.store.put(name, Buffer.from(name));
  const inodes = await bench.list();
  bench.store.take();
  for (const inode of inodes) assert.equal(await bench.read(inode), inode.path);
  assert.deepEqual(bench.store.take(), ["GET a", "GET b", "GET c"]);
  for (const inode of inodes) await bench.open(inode); // the kernel has its pages
  assert.deepEqual(bench.store.take(), ["HEAD a", "HEAD b", "HEAD c"]);
});

test("a second open while the first bytes of a file come asks by a HEAD", async () => {
  const bench = new Bench(DEFAULTS);
  await bench.store.put("a", Buffer.from("a"));
  const [inode] = await bench.list();
  assert(inode !== undefined);
  bench.store.take();
  await Promise.all([bench.open(inode), bench.open(inode), bench.open(inode)]);
  assert.deepEqual(bench.store.take().toSorted(), ["GET a", "HEAD a", "HEAD a"]);
});

test("large and empty files are asked for by a HEAD; with a TTL S3 is not asked", async () => {
  for (const [config, expected] of [
    [DEFAULTS, ["HEAD empty", "HEAD large"]],
    [TRUSTING, []],
  ] as const) {
    const bench = new Bench(config);
    await bench.store.put("empty", Buffer.alloc(0));
    await bench.store.put("large", Buffer.alloc((1 << 20) + 1));
    const inodes = await bench.list();
    bench.store.take();
    for (const inode of inodes) await bench.open(inode);
    assert.deepEqual(bench.store.take(), expected);
    for (const inode of inodes) await bench.open(inode, O_DIRECT);
    assert.deepEqual(bench.store.take(), ["HEAD empty", "HEAD large"], "O_DIRECT");
  }
});

test("a lookup that has asked S3 just now counts for one open of the same thread", async () => {
  const bench = new Bench(CONFIG);
  await bench.store.put("large", Buffer.alloc((1 << 20) + 1));
  const inode = await bench.lookup("large");
  bench.store.take();
  await bench.open(inode);
  await bench.open(inode);
  assert.deepEqual(bench.store.take(), ["HEAD large"]);
  await bench.lookup("large");
  bench.store.take();
  later();
  await bench.open(inode);
  assert.deepEqual(bench.store.take(), ["HEAD large"]);
  await bench.lookup("large");
  bench.store.take();
  await bench.open(inode, O_RDONLY, OTHER_PID);
  assert.deepEqual(bench.store.take(), ["HEAD large"], "another thread");
  await bench.open(inode);
  assert.deepEqual(bench.store.take(), []);
  const unseen = await bench.engine.lookup(ROOT_NODEID, "large", 0); // outside of the pid namespace
  assert(unseen === inode);
  bench.store.take();
  await bench.open(inode, O_RDONLY, 0);
  assert.deepEqual(bench.store.take(), ["HEAD large"]);
});

test("what was written here is read back after a HEAD, without a GET", async () => {
  const bench = new Bench(DEFAULTS);
  const { inode, handle } = await bench.engine.create(ROOT_NODEID, "ours", O_WRONLY_TRUNC, 1);
  inode.lookups += 1;
  await bench.engine.write({ handle, offsetBytes: 0, data: Buffer.from("ours") });
  await bench.engine.flush(handle, { pid: 1, owner: "0.1" });
  bench.store.take();
  await bench.open(inode);
  assert.deepEqual(bench.store.take(), ["HEAD ours"]);
  await bench.open(inode);
  assert.deepEqual(bench.store.take(), ["HEAD ours"]);
});

for (const [what, sizeBytes] of [
  ["small", 10],
  ["large", (1 << 20) + 1],
] as const) {
  test(`a ${what} object that was replaced or deleted is stale, and a lookup finds what is there`, async () => {
    const bench = new Bench(DEFAULTS);
    const contents = [1, 2, 1].map((byte) => Buffer.alloc(sizeBytes, byte));
    await bench.store.put("key", Buffer.alloc(sizeBytes));
    let [inode] = await bench.list();
    for (const content of contents) {
      assert(inode !== undefined);
      await bench.store.put("key", content);
      await assert.rejects(bench.open(inode), isStale);
      const next = await bench.lookup("key");
      assert.notEqual(next, inode);
      inode = next;
      later();
      assert.equal((await bench.read(inode)).length, sizeBytes);
    }
    assert(inode !== undefined);
    await bench.store.delete("key");
    await assert.rejects(bench.open(inode), isStale);
    assert.equal(await bench.engine.lookup(ROOT_NODEID, "key"), undefined);
  });
}

test("an open that waits for S3 is EPERM when a writer came first", async () => {
  const bench = new Bench(DEFAULTS);
  await bench.store.put("key", Buffer.alloc(0));
  const [inode] = await bench.list();
  assert(inode !== undefined);
  const opening = bench.open(inode);
  const writer = await bench.open(inode, O_WRONLY_TRUNC);
  await assert.rejects(opening, (error) => error instanceof PosixFailure && error.code === "EPERM");
  await bench.engine.write({ handle: writer, offsetBytes: 0, data: Buffer.from("new") });
  await bench.engine.release(writer);
  assert.equal(await bench.read(inode), "new");
});

test("an open whose GET was overtaken by a writer of this mount reads what was written", async () => {
  const bench = new Bench(DEFAULTS);
  await bench.store.put("key", Buffer.from("old"));
  const [inode] = await bench.list();
  assert(inode !== undefined);
  const answered = Promise.withResolvers<void>();
  bench.store.beforeAnswer = answered.promise;
  const opening = bench.open(inode);
  while (!bench.store.requests.includes("GET key")) await new Promise(setImmediate);
  bench.store.beforeAnswer = undefined;
  const writer = await bench.open(inode, O_WRONLY_TRUNC);
  await bench.engine.write({ handle: writer, offsetBytes: 0, data: Buffer.from("newer") });
  await bench.engine.release(writer);
  answered.resolve();
  const lent = await bench.engine.read(await opening, 0, 100);
  assert.equal(Buffer.concat(lent.chunks).toString(), "newer");
  lent.release();
});

for (const [what, config] of [
  ["by default", DEFAULTS],
  ["with a TTL", TRUSTING],
] as const) {
  test(`${what}, an object that is in the archive by a listing is asked for by a HEAD`, async () => {
    const bench = new Bench(config);
    await bench.store.put("key", Buffer.from("frozen"));
    bench.store.archived = true;
    const [inode] = await bench.list();
    assert(inode !== undefined);
    await assert.rejects(bench.open(inode), isDenied);
    bench.store.archived = false; // restored: the next HEAD says so, a listing does not
    assert.equal(await bench.read(inode), "frozen");
    await bench.list();
    assert.equal(await bench.read(inode), "frozen");
  });
}

import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine } from "../engine/engine.ts";
import { ROOT_NODEID } from "../engine/inode-table.ts";
import { TEST_CONFIG } from "../engine/test-config.ts";
import { GatedStore } from "../engine/test-gated-store.ts";
import { TestMemory } from "../engine/test-memory.ts";
import { ENTRY_OUT_BYTES, writeUint64 } from "../fuse/encode.ts";
import { OPCODE } from "../fuse/opcode.ts";
import { Protocol } from "../fuse/protocol.ts";
import type { ListQuery } from "../s3/object-store.ts";
import { testFileSystem } from "./test-file-system.ts";
import { readDirents } from "./test-kernel.ts";
import type { Dirent } from "./test-kernel.ts";

const CONFIG = { ...TEST_CONFIG, metadataTtlMs: 60_000, inodesMax: 100_000 };
const CALLER = { uid: 0, gid: 0, pid: 1, unique: "0.1" };
const PAGE_KEYS = 1000;

/** Pages of a listing behind the first one are answered when the test says so. */
class SlowStore extends GatedStore {
  override async list(query: ListQuery) {
    const page = await super.list(query);
    const isFirst = query.continuationToken === undefined && query.startAfter === undefined;
    if (!isFirst) await this.gate;
    return page;
  }
}

async function setUp(names: readonly string[]) {
  const store = new SlowStore();
  for (const name of names) await store.put(name, Buffer.from(name));
  store.hold();
  const engine = new Engine(store, CONFIG, new TestMemory(1 << 22).begin());
  const fileSystem = testFileSystem(engine, CONFIG);
  const protocol = new Protocol(fileSystem, {
    idmap: false,
    onNegotiated: () => undefined,
    onBug: (error) => assert.fail(String(error)),
  });
  const handle = fileSystem.openDirectory(CALLER, ROOT_NODEID);
  let unique = 0;
  /** A READDIRPLUS with a page of 4 KiB, as the kernel sends it. */
  const read = (position: number): Promise<Dirent[]> => {
    const bytes = Buffer.alloc(80);
    bytes.writeUInt32LE(bytes.length, 0);
    bytes.writeUInt32LE(OPCODE.READDIRPLUS, 4);
    writeUint64(bytes, (unique += 2), 8);
    writeUint64(bytes, ROOT_NODEID, 16);
    writeUint64(bytes, handle, 40);
    writeUint64(bytes, position, 48);
    bytes.writeUInt32LE(4096, 56);
    return new Promise((resolve) => {
      protocol.receive(bytes, (reply) => {
        assert(reply !== undefined);
        resolve(readDirents(Buffer.concat(reply.chunks).subarray(16), ENTRY_OUT_BYTES));
        reply.settle(true);
      });
    });
  };
  const remove = (name: string) => engine.unlink(ROOT_NODEID, name, `9.${name}`);
  return { store, read, remove };
}

test("a directory does not end at names that were deleted while it was read", async () => {
  const names = Array.from({ length: 2500 }, (_, n) => `f${String(n).padStart(4, "0")}`);
  const { store, read, remove } = await setUp(names);
  const first = await read(0);
  const position = first.at(-1)?.next ?? 0;
  for (const name of names.slice(first.length - 2, PAGE_KEYS)) await remove(name);
  const second = read(position);
  await new Promise(setImmediate);
  store.letGo();
  const expected = (await second).map(({ name }) => name);
  assert.equal(expected[0], names[PAGE_KEYS]);
  const again = await read(position); // as after an interruption
  assert.deepEqual(
    again.map(({ name }) => name),
    expected,
  );
  const seen: string[] = [];
  for (let page = again; page.length > 0; page = await read(page.at(-1)?.next ?? 0)) {
    seen.push(...page.map(({ name }) => name));
  }
  assert.deepEqual(seen, names.slice(PAGE_KEYS));
});

test("a directory ends when all names behind the position were deleted", async () => {
  const names = Array.from({ length: 100 }, (_, n) => `f${String(n).padStart(4, "0")}`);
  const { read, remove } = await setUp(names);
  const first = await read(0);
  for (const name of names.slice(first.length - 2)) await remove(name);
  assert.deepEqual(await read(first.at(-1)?.next ?? 0), []);
});

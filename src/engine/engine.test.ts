import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const CONFIG = { ...TEST_CONFIG, writePartSizeBytes: 1 };
const O_WRONLY_TRUNC = 0o1001;

/** A bucket whose objects have gone to the archive. */
class Archive extends MemoryStore {
  override async head(key: string) {
    const found = await super.head(key);
    return found && { ...found, archived: true };
  }
}

function codeOf(expected: string) {
  return (error: unknown) =>
    error instanceof PosixFailure
      ? error.code === expected
      : error instanceof Failure && error.kind === expected;
}

test("an object in the archive is seen and can't be read", async () => {
  const store = new Archive();
  await store.put("old", Buffer.alloc(3));
  const engine = new Engine(store, CONFIG, new TestMemory().begin());
  const inode = await engine.lookup(ROOT_NODEID, "old");
  assert(inode !== undefined);
  inode.lookups += 1;
  assert.equal(inode.sizeBytes, 3);
  await assert.rejects(engine.open(inode.nodeid, 0, 1), codeOf("denied"));
});

test("a write beyond the 10,000th part is EFBIG and fails the file for good", async () => {
  const store = new MemoryStore();
  const memory = new TestMemory(2 << 20).begin();
  const engine = new Engine(store, CONFIG, memory);
  memory.journal.state = () => engine.records();
  const { handle } = await engine.create(ROOT_NODEID, "huge", O_WRONLY_TRUNC, 1);
  const write = async (offsetBytes: number, sizeBytes: number) =>
    engine.write({ handle, offsetBytes, data: Buffer.alloc(sizeBytes) });
  assert.equal(await write(0, 10_000), 10_000);
  await assert.rejects(write(10_000, 1), codeOf("EFBIG"));
  await assert.rejects(engine.sync(handle), codeOf("EFBIG"));
  await assert.rejects(engine.flush(handle, { pid: 1, owner: "0.1" }), codeOf("EFBIG"));
  await assert.rejects(engine.release(handle), codeOf("EFBIG"));
  assert.deepEqual(store.keys, []);
  assert.equal(store.unfinishedUploads, 0);
});

for (const name of [".", "..", "a/b", "a\0b"]) {
  test(`not a name: ${JSON.stringify(name)}`, async () => {
    const engine = new Engine(new MemoryStore(), CONFIG, new TestMemory().begin());
    await assert.rejects(engine.makeFile(ROOT_NODEID, name), codeOf("EINVAL"));
  });
}

test("impossible keys are hidden; a directory hides a file of its name", async () => {
  const store = new MemoryStore();
  const keys = ["a", "a/b", "b//c", "d/./e", "f/../g", `h/${"n".repeat(256)}`, "i/", "ok"];
  for (const key of keys) await store.put(key, Buffer.alloc(1));
  const engine = new Engine(store, CONFIG, new TestMemory().begin());
  const list = async (nodeid: number) => {
    const handle = engine.openDirectory(nodeid);
    const names: string[] = [];
    for (;;) {
      const stream = await engine.listDirectory(handle, names.length, false);
      const item = stream.item(names.length);
      if (item === undefined) return names;
      names.push(item.kind === "directory" ? `${item.name}/` : item.name);
    }
  };
  assert.deepEqual(await list(ROOT_NODEID), ["a/", "b/", "d/", "f/", "h/", "i/", "ok"]);
  for (const name of ["b", "d", "f", "h", "i"]) {
    const inode = await engine.lookup(ROOT_NODEID, name);
    assert.equal(inode?.kind, "directory");
    inode.lookups += 1;
    assert.deepEqual(await list(inode.nodeid), [], name);
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

function codeOf(expected: string) {
  return (error: unknown) =>
    error instanceof PosixFailure
      ? error.code === expected
      : error instanceof Failure && error.kind === expected;
}

async function setUp(keys: readonly string[], allowDelete = true) {
  const store = new MemoryStore();
  for (const key of keys) await store.put(key, Buffer.from(key.endsWith("/") ? "" : "x"));
  const memory = new TestMemory();
  const start = (durable: ReturnType<TestMemory["resume"]>) => {
    const engine = new Engine(store, { ...TEST_CONFIG, allowDelete }, durable);
    const walk = async (path: string): Promise<number> => {
      let nodeid = ROOT_NODEID;
      for (const name of path.split("/")) {
        const inode = await engine.lookup(nodeid, name);
        if (inode === undefined) throw new Failure("absent", path);
        engine.table.count(inode);
        ({ nodeid } = inode);
      }
      durable.journal.commit();
      return nodeid;
    };
    const rmdir = (path: string) => engine.removeDirectory(ROOT_NODEID, path, "0.1");
    return { engine, walk, rmdir };
  };
  return { store, ...start(memory.begin()), restart: () => start(memory.resume()) };
}

test("rmdir of a directory with keys is ENOTEMPTY, hidden and remote ones included", async () => {
  const { store, rmdir } = await setUp(["a/b/c", "hidden//x", "markers/", "markers/1/", "big/"]);
  await store.put("big/", Buffer.from("somebody's data"));
  for (const path of ["a", "hidden", "markers", "big"]) {
    await assert.rejects(rmdir(path), codeOf("ENOTEMPTY"), path);
  }
  assert.equal(store.keys.length, 5);
});

test("without --allow-delete a directory that is in S3 stays, even an empty one", async () => {
  const { store, engine, rmdir } = await setUp(["a/b", "marker/"], false);
  await assert.rejects(rmdir("a"), codeOf("EPERM"));
  await assert.rejects(rmdir("marker"), codeOf("EPERM"));
  await engine.makeDirectory(ROOT_NODEID, "local");
  await rmdir("local");
  assert.deepEqual(store.keys, ["a/b", "marker/"]);
});

test("the object that stands for an empty directory is deleted with it", async () => {
  const { store, rmdir, walk } = await setUp(["marker/", "marker-2/"]);
  await rmdir("marker");
  await assert.rejects(walk("marker"), codeOf("absent"));
  assert.deepEqual(store.keys, ["marker-2/"]);
});

test("a directory made here is not removed when another client has put a key there", async () => {
  const { store, engine, rmdir } = await setUp([]);
  await engine.makeDirectory(ROOT_NODEID, "made");
  await store.put("made/file", Buffer.from("theirs"));
  await assert.rejects(rmdir("made"), codeOf("ENOTEMPTY"));
  assert.deepEqual(store.keys, ["made/file"]);
});

test("directories that we emptied are found until they are removed, by a successor too", async () => {
  const { engine, walk, restart } = await setUp(["a/b/c/file"]);
  const deepest = await walk("a/b/c");
  await engine.unlink(deepest, "file", "0.1");
  const names = ["a", "b", "c"].map((_, n, all) => all.slice(0, n + 1).join("/"));
  for (const path of names) engine.table.forget(engine.table.current(path)?.nodeid ?? 0, 10);
  for (const path of names) await walk(path);
  const next = restart();
  for (const path of names) await next.walk(path);
  await next.engine.removeDirectory(await next.walk("a/b"), "c", "0.2");
  await next.engine.removeDirectory(await next.walk("a"), "b", "0.3");
  await next.rmdir("a");
  await assert.rejects(next.walk("a"), codeOf("absent"));
});

test("an emptied directory takes new files and is not listed", async () => {
  const { store, engine, walk } = await setUp(["a/file", "b"]);
  const nodeid = await walk("a");
  await engine.unlink(nodeid, "file", "0.1");
  const handle = engine.openDirectory(ROOT_NODEID);
  const stream = await engine.listDirectory(handle, 0, true);
  assert.deepEqual([stream.item(0)?.name, stream.item(1)], ["b", undefined]);
  const made = await engine.create(nodeid, "new", 0o1001, 1);
  await engine.release(made.handle);
  assert.deepEqual(store.keys, ["a/new", "b"]);
  await store.delete("a/new");
  await assert.rejects(walk("a"), codeOf("absent"), "others have emptied it");
});

test("a directory with a file that is being written stays, however deep", async () => {
  const { engine, walk, rmdir } = await setUp(["a/b/file"]);
  const parent = await walk("a/b");
  await engine.unlink(parent, "file", "0.1");
  await engine.create(parent, "new", 0o1001, 1);
  await assert.rejects(rmdir("a"), codeOf("ENOTEMPTY"));
  assert((await walk("a/b/new")) > 0);
});

test("a directory whose keys others have removed stays while there are local names in it", async () => {
  const { store, engine, walk, rmdir } = await setUp(["a/file"]);
  await engine.makeDirectory(await walk("a"), "made");
  await store.delete("a/file");
  assert((await walk("a/made")) > 0);
  await assert.rejects(rmdir("a"), codeOf("ENOTEMPTY"));
});

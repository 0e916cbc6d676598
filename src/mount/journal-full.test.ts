import assert from "node:assert/strict";
import { constants } from "node:fs";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { Engine } from "../engine/engine.ts";
import { PosixFailure } from "../engine/posix-failure.ts";
import { TEST_CONFIG } from "../engine/test-config.ts";
import { TestMemory } from "../engine/test-memory.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { testFileSystem } from "./test-file-system.ts";

const CONFIG = { ...TEST_CONFIG, metadataTtlMs: 60_000 };
const AREA_BYTES = 64 * 1024;
const FILES = 1000;
const nameOf = (n: number) => `${n}-${"long".repeat(50)}`;

function start(store: MemoryStore, memory: ReturnType<TestMemory["resume"]>) {
  const engine = new Engine(store, CONFIG, memory);
  memory.journal.state = () => engine.records();
  const fileSystem = testFileSystem(engine, CONFIG);
  let unique = 0;
  const caller = () => ({ uid: 0, gid: 0, pid: 1, unique: `1.${unique++}` });
  /** As the kernel asks: answered, noted, and the answer is taken. */
  const lookup = async (n: number) => {
    const asking = caller();
    try {
      const entry = await fileSystem.lookup(asking, 1, nameOf(n));
      return entry.attributes?.nodeid ?? 0;
    } finally {
      memory.journal.commit();
      fileSystem.answered(asking.unique);
    }
  };
  return { engine, fileSystem, lookup };
}

/** Opens the file until the journal takes no more handles. */
async function openAll(fileSystem: ReturnType<typeof start>["fileSystem"], nodeid: number) {
  const handles: number[] = [];
  const caller = { uid: 0, gid: 0, pid: 1 };
  for (;;) {
    try {
      const unique = `2.${handles.length}`;
      const { handle } = await fileSystem.open({ ...caller, unique }, nodeid, constants.O_RDONLY);
      fileSystem.answered(unique);
      handles.push(handle);
    } catch (error) {
      assert(error instanceof Failure && error.kind === "busy", String(error));
      return handles;
    }
  }
}

const noRoom = (error: unknown) => error instanceof PosixFailure && error.code === "ENOMEM";

test("a journal at its limit refuses names, takes them again, and is resumed", async () => {
  const store = new MemoryStore();
  for (let n = 0; n < FILES; n++) await store.put(nameOf(n), Buffer.from("x"));
  const memory = new TestMemory(AREA_BYTES);
  const first = start(store, memory.begin());
  const known: number[] = [];
  const fill = async ({ lookup }: typeof first) => {
    for (let n = known.length; n < FILES; n++) known.push(await lookup(n));
  };
  await assert.rejects(fill(first), noRoom);
  assert(known.length > 50 && known.length < FILES, `${known.length} names are known`);
  assert.equal(await first.lookup(0), known[0], "what is known may be asked for");

  const second = start(store, memory.resume());
  for (const nodeid of known) assert.equal(second.engine.table.get(nodeid).nodeid, nodeid);
  await assert.rejects(fill(second), noRoom);
  for (const nodeid of known.slice(0, known.length / 2)) second.fileSystem.forget(nodeid, 2);
  // Room is counted at the next compaction, which is due after some more requests.
  const last = known.length - 1;
  for (let n = 0; n < FILES; n++) assert.equal(await second.lookup(last), known[last]);
  assert((await second.lookup(FILES - 1)) > 0, "room is there again");
});

test("a journal at its limit: what is open can fail, close and be forgotten", async () => {
  const store = new MemoryStore();
  await store.put(nameOf(0), Buffer.from("x"));
  const memory = new TestMemory(AREA_BYTES);
  const opened = memory.begin();
  const { engine, fileSystem, lookup } = start(store, opened);
  const nodeid = await lookup(0);
  const writer = { uid: 0, gid: 0, pid: 1, unique: "3.1" };
  const made = await fileSystem.create(writer, 1, "new", constants.O_WRONLY);
  const { handle: written } = made.opened;
  const newId = made.entry.attributes?.nodeid ?? 0;
  const handles = await openAll(fileSystem, nodeid);
  assert(handles.length > 100, `${handles.length} handles`);
  assert.equal(engine.table.get(nodeid).readers, handles.length, "a refused open leaves nothing");
  await assert.rejects(fileSystem.create({ ...writer, unique: "3.2" }, 1, "newer", 0), noRoom);
  assert.equal(engine.table.current("newer"), undefined, "a refused create leaves nothing");

  const astray = { handle: written, offsetBytes: 5, data: Buffer.from("a hole") };
  assert.throws(() => engine.write(astray), /expected at 0/);
  opened.journal.commit();
  const failed = start(store, memory.copy().resume());
  await assert.rejects(failed.fileSystem.sync(written), PosixFailure, "the failure is known");

  await assert.rejects(engine.release(written), /expected at 0/);
  fileSystem.forget(newId, 1);
  for (const handle of handles) fileSystem.release(handle);
  fileSystem.forget(nodeid, 1);
  opened.journal.commit();
  const next = start(store, memory.resume());
  assert.equal(next.engine.table.size, 1, "only the root is known");
  assert.equal(next.engine.openedAs(written), undefined);
  assert((await next.lookup(0)) > 0);
});

test("a directory that finds no room in the journal does not stay half made", async () => {
  let hasRoom = true;
  class FillingStore extends MemoryStore {
    override async head(key: string) {
      hasRoom = key !== "first";
      return super.head(key);
    }
  }
  const memory = new TestMemory().begin();
  const journal = {
    note: (...args: Parameters<typeof memory.journal.note>) => memory.journal.note(...args),
    commit: () => memory.journal.commit(),
    makeRoom: () => hasRoom,
    shrunk: new Promise<void>(() => undefined),
    get hasRoom() {
      return hasRoom;
    },
  };
  const engine = new Engine(new FillingStore(), CONFIG, { ...memory, journal });
  const fileSystem = testFileSystem(engine, CONFIG);
  const make = (unique: string) =>
    fileSystem.makeDirectory({ uid: 0, gid: 0, pid: 1, unique }, 1, "first");
  await assert.rejects(make("4.1"), noRoom);
  hasRoom = true;
  assert.equal(engine.table.current("first"), undefined);
});

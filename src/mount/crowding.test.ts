import assert from "node:assert/strict";
import { constants } from "node:fs";
import { test } from "node:test";
import { Engine } from "../engine/engine.ts";
import { ROOT_NODEID } from "../engine/inode-table.ts";
import { PosixFailure } from "../engine/posix-failure.ts";
import { TEST_CONFIG } from "../engine/test-config.ts";
import { TestMemory } from "../engine/test-memory.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { Crowding } from "./crowding.ts";
import { testFileSystem } from "./test-file-system.ts";

const CONFIG = { ...TEST_CONFIG, metadataTtlMs: 60_000, inodesMax: 100_000 };
const { O_WRONLY } = constants;
const AREA_BYTES = 64 * 1024;
const FILES = 1000;
const nameAt = (n: number) => `${String(n).padStart(4, "0")}-${"long".repeat(50)}`;

const isNoRoom = (error: unknown) => error instanceof PosixFailure && error.code === "ENOMEM";

/** A kernel that has two directories open, and forgets other names some time after it is asked. */
async function setUp(forgets: (name: string) => boolean) {
  const store = new MemoryStore();
  for (const dir of ["a", "b"]) {
    for (let n = 0; n < FILES; n++) await store.put(`${dir}/${nameAt(n)}`, Buffer.from("x"));
  }
  const memory = new TestMemory(AREA_BYTES).begin();
  const engine = new Engine(store, CONFIG, memory);
  memory.journal.state = () => engine.records();
  const references = new Map<string, { nodeid: number; count: number }>();
  const notify = async (message: Buffer) => {
    await new Promise(setImmediate);
    const key = `${message.readUInt32LE(16)}/${message.toString("utf8", 32, message.length - 1)}`;
    const known = references.get(key);
    if (known === undefined || !forgets(key)) return;
    references.delete(key);
    setImmediate(() => fileSystem.forget(known.nodeid, known.count));
  };
  const crowding = new Crowding(engine.table, CONFIG.inodesMax, {
    notify,
    onThinned: () => undefined,
    journal: memory.journal,
  });
  const fileSystem = testFileSystem(engine, CONFIG, undefined, crowding);
  let unique = 0;
  const lookup = async (parent: number, name: string): Promise<number> => {
    const caller = { uid: 0, gid: 0, pid: 1, unique: `1.${unique++}` };
    await new Promise(setImmediate); // a request takes at least a turn of the event loop
    try {
      const { attributes } = await fileSystem.lookup(caller, parent, name);
      assert(attributes !== undefined);
      const { nodeid } = attributes;
      const count = (references.get(`${parent}/${name}`)?.count ?? 0) + 1;
      references.set(`${parent}/${name}`, { nodeid, count });
      return nodeid;
    } finally {
      memory.journal.commit();
      fileSystem.answered(caller.unique);
    }
  };
  const dirs = [await lookup(ROOT_NODEID, "a"), await lookup(ROOT_NODEID, "b")] as const;
  memory.journal.onFull = () => crowding.check();
  return { engine, journal: memory.journal, crowding, fileSystem, lookup, dirs };
}

test("long names are thinned out before the journal is full", async () => {
  const { engine, journal, lookup, dirs } = await setUp((name) => !/\/[ab]$/.test(name));
  for (const dir of dirs) for (let n = 0; n < FILES; n++) await lookup(dir, nameAt(n));
  assert(journal.hasRoom);
  assert(engine.table.size > 50, "no more than is needed has gone");
});

test("a request that finds no room waits for names to be forgotten elsewhere", async () => {
  let forgets = false;
  const { engine, journal, lookup, dirs } = await setUp((name) => forgets && !/\/[ab]$/.test(name));
  const fill = async () => {
    for (let n = 0; n < FILES && journal.hasRoom; n++) await lookup(dirs[0], nameAt(n));
  };
  await fill();
  assert(!journal.hasRoom, "the journal is full");
  const waiting = lookup(dirs[1], nameAt(FILES - 1));
  await new Promise(setImmediate);
  forgets = true;
  assert((await waiting) > 0);
  assert(journal.hasRoom);
  assert(engine.table.notedBytes < journal.capacityBytes);
});

test("ENOMEM when the kernel uses every name, and known names are still found", async () => {
  const { journal, fileSystem, lookup, dirs } = await setUp(() => false);
  let known = 0;
  const fill = async () => {
    for (let n = 0; n < FILES; n++) known = await lookup(dirs[0], nameAt(n));
  };
  await assert.rejects(fill(), isNoRoom);
  assert(!journal.hasRoom && known > 0);
  assert.equal(fileSystem.forget(known, 1), true, "it goes on");
});

test("names yield to the parts of a file that is open for writing", async () => {
  const { engine, journal, fileSystem, lookup, dirs } = await setUp(
    (name) => !/\/[ab]$/.test(name),
  );
  for (const dir of dirs) for (let n = 0; n < FILES; n++) await lookup(dir, nameAt(n));
  const namesBytes = engine.table.notedBytes;
  const caller = { uid: 0, gid: 0, pid: 1, unique: "2.1" };
  const { opened } = await fileSystem.create(caller, ROOT_NODEID, "large", O_WRONLY);
  const data = Buffer.alloc(CONFIG.writePartSizeBytes, "x");
  const partsBytes = () => journal.usedBytes - engine.table.notedBytes;
  for (let part = 0; part < 400; part++) {
    const offsetBytes = part * data.length;
    await engine.write({ handle: opened.handle, offsetBytes, data, unique: `3.${part}` });
    journal.commit();
    await new Promise(setImmediate);
  }
  await fileSystem.sync(opened.handle);
  assert(namesBytes > AREA_BYTES / 3, "there were many names");
  assert(partsBytes() > AREA_BYTES / 3, "the parts need their place");
});

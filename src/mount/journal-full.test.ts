import assert from "node:assert/strict";
import { test } from "node:test";
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

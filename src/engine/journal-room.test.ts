import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { JournalRoom } from "./journal-room.ts";
import { JournalFull } from "../journal/journal.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const O_WRONLY_TRUNC = 0o1001;
const PIECE = Buffer.alloc(TEST_CONFIG.writePartSizeBytes, "x");
const USER = { pid: 1, owner: "0.1" };
const NEVER = new AbortController().signal;

const isNoRoom = (error: unknown) => error instanceof PosixFailure && error.code === "ENOMEM";

/** An engine whose journal has room for about 300 parts. */
function setUp() {
  const store = new MemoryStore();
  const memory = new TestMemory(1 << 16, 1 << 20).begin();
  const engine = new Engine(store, TEST_CONFIG, memory);
  memory.journal.state = () => engine.records();
  const open = async (name: string) => {
    const { inode, handle } = await engine.create(ROOT_NODEID, name, O_WRONLY_TRUNC, 1);
    engine.acknowledge(handle, `0.${handle}`);
    engine.table.count(inode);
    let offsetBytes = 0;
    const write = async (leaving = NEVER) => {
      const request = { handle, offsetBytes, data: PIECE, user: USER, leaving };
      offsetBytes += await engine.write(request);
      await new Promise(setImmediate); // the part is sent
    };
    const close = async () => {
      await engine.flush(handle, USER);
      await engine.release(handle);
      memory.journal.commit();
    };
    return { write, close, sizeBytes: () => offsetBytes };
  };
  return { store, journal: memory.journal, open };
}

test("a file is written on when the journal was full with one that was closed since", async () => {
  const { store, journal, open } = setUp();
  const [large, small] = [await open("large"), await open("small")];
  await small.write();
  while (journal.hasRoom) await large.write();
  await large.close();
  await small.write();
  await small.close();
  assert.equal(store.body("small")?.length, 2 * PIECE.length);
});

/** A journal that is full until it is told otherwise; `note` counts what it has taken. */
class FullJournal {
  hasRoom = false;
  noted = 0;
  #shrunk = Promise.withResolvers<void>();

  get shrunk(): Promise<void> {
    return this.#shrunk.promise;
  }

  makeRoom(): boolean {
    return this.hasRoom;
  }

  note(): number {
    if (!this.hasRoom) throw new JournalFull();
    return (this.noted += 1);
  }

  /** Something has ended. */
  shrink(hasRoom: boolean): void {
    this.hasRoom = hasRoom;
    this.#shrunk.resolve();
    this.#shrunk = Promise.withResolvers();
  }
}

const upload = (heldParts: number) => ({ heldParts, failure: undefined as unknown });

test("a writer that finds the journal full waits until enough has ended", async () => {
  const journal = new FullJournal();
  const room = new JournalRoom(journal, () => [upload(7)]);
  const noted = room.run(upload(1), () => journal.note(), NEVER);
  journal.shrink(false);
  await new Promise(setImmediate);
  assert.equal(journal.noted, 0);
  journal.shrink(true);
  assert.equal(await noted, 1);
});

test("a writer that waits for room in the journal can be interrupted", async () => {
  const journal = new FullJournal();
  const leaving = new AbortController();
  const room = new JournalRoom(journal, () => [upload(7)]);
  const noted = room.run(upload(1), () => journal.note(), leaving.signal);
  leaving.abort();
  assert.equal(await noted, undefined);
});

test("a writer whose upload fails waits no longer for room in the journal", async () => {
  const journal = new FullJournal();
  const room = new JournalRoom(journal, () => [upload(7)]);
  const failing = upload(1);
  const noted = room.run(failing, () => journal.note(), NEVER);
  failing.failure = new Error("the part was refused");
  journal.shrink(false);
  await assert.rejects(noted, /the part was refused/);
});

test("a file that can never fit fails, and says why", async () => {
  const { store, open } = setUp();
  const file = await open("too-large");
  const writeAll = async () => {
    for (;;) await file.write();
  };
  await assert.rejects(
    writeAll(),
    (error) => isNoRoom(error) && /no room for more parts/.test(String(error)),
  );
  assert(file.sizeBytes() > 200 * PIECE.length);
  await assert.rejects(file.close(), isNoRoom);
  assert.deepEqual([store.keys, store.unfinishedUploads], [[], 0]);
});

test("a writer does not wait for uploads that send nothing any more", async () => {
  const journal = new FullJournal();
  const room = new JournalRoom(journal, () => [upload(7)], 0);
  await assert.rejects(
    room.run(upload(1), () => journal.note(), NEVER),
    isNoRoom,
  );
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { Engine } from "../engine/engine.ts";
import { ROOT_NODEID } from "../engine/inode-table.ts";
import { TEST_CONFIG } from "../engine/test-config.ts";
import { TestMemory } from "../engine/test-memory.ts";
import { OPCODE } from "../fuse/opcode.ts";
import { Protocol } from "../fuse/protocol.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import type { ListQuery } from "../s3/object-store.ts";
import { testFileSystem } from "./test-file-system.ts";

const EINTR = 4;
const ENOENT = 2;
const S_IFREG = 0o100644;
const O_WRONLY_TRUNC = 0o1001;

/** A bucket that is away until the test says so. */
class AwayStore extends MemoryStore {
  #back = Promise.withResolvers<void>();

  leave(): void {
    this.#back = Promise.withResolvers();
  }

  comeBack(): void {
    this.#back.resolve();
  }

  override async head(key: string) {
    await this.#back.promise;
    return super.head(key);
  }

  override async list(query: ListQuery) {
    await this.#back.promise;
    return super.list(query);
  }

  override async delete(key: string) {
    await this.#back.promise;
    return super.delete(key);
  }
}

function setUp() {
  const store = new AwayStore();
  const memory = new TestMemory().begin();
  const engine = new Engine(store, { ...TEST_CONFIG, metadataTtlMs: 60_000 }, memory);
  const bugs: unknown[] = [];
  const protocol = new Protocol(
    testFileSystem(engine, TEST_CONFIG),
    { idmap: false, onNegotiated: () => undefined, onBug: (error) => bugs.push(error) },
    0,
  );
  let unique = 0;
  const send = (opcode: number, body: Buffer): Promise<number> => {
    const bytes = Buffer.concat([Buffer.alloc(40), body]);
    bytes.writeUInt32LE(bytes.length, 0);
    bytes.writeUInt32LE(opcode, 4);
    bytes.writeUInt32LE(++unique * 2, 8);
    bytes.writeUInt32LE(ROOT_NODEID, 16);
    const { promise, resolve } = Promise.withResolvers<number>();
    protocol.receive(bytes, (reply) => {
      const [header] = reply?.chunks ?? [];
      reply?.settle(true);
      resolve(header === undefined ? 0 : -Buffer.from(header).readInt32LE(4));
    });
    return promise;
  };
  /** As the kernel does when a signal comes. */
  const interrupt = () => {
    const body = Buffer.alloc(8);
    body.writeUInt32LE(unique * 2, 0);
    void send(OPCODE.INTERRUPT, body);
  };
  const outcomes = () => [...engine.answers.records].length;
  const settle = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    assert.deepEqual(bugs, []);
  };
  return { store, engine, send, interrupt, outcomes, settle };
}

const named = (structBytes: number, ...names: string[]) =>
  Buffer.concat([
    Buffer.alloc(structBytes),
    Buffer.from(names.map((name) => `${name}\0`).join("")),
  ]);
const node = named(16, "new");
node.writeUInt32LE(S_IFREG, 0);

const REQUESTS: Readonly<Record<string, readonly [opcode: number, body: Buffer]>> = {
  LOOKUP: [OPCODE.LOOKUP, named(0, "there")],
  UNLINK: [OPCODE.UNLINK, named(0, "there")],
  RMDIR: [OPCODE.RMDIR, named(0, "marker")],
  MKDIR: [OPCODE.MKDIR, named(8, "new")],
  MKNOD: [OPCODE.MKNOD, node],
  RENAME: [OPCODE.RENAME, named(8, "there", "new")],
  RENAME2: [OPCODE.RENAME2, named(16, "there", "new")],
};

for (const [name, [opcode, body]] of Object.entries(REQUESTS)) {
  test(`${name} is answered with EINTR when S3 is away, and leaves nothing behind`, async () => {
    const { store, engine, send, interrupt, outcomes, settle } = setUp();
    await store.put("there", Buffer.from("x"));
    await store.put("marker/", Buffer.alloc(0));
    const answered = send(opcode, body);
    interrupt();
    assert.equal(await answered, EINTR);
    assert.equal(outcomes(), 0);
    store.comeBack();
    await settle();
    assert.equal(outcomes(), 0, "answers that nobody will ask for");
    assert.equal(engine.table.size, 1, "inodes that nobody needs");
    assert.equal(await engine.lookup(ROOT_NODEID, "new"), undefined, "made for nobody");
  });
}

test("a file is not deleted by an interrupted unlink after it was written anew", async () => {
  const { store, engine, send, interrupt, settle } = setUp();
  store.comeBack();
  await store.put("there", Buffer.from("old"));
  const known = await engine.lookup(ROOT_NODEID, "there");
  assert(known !== undefined);
  known.lookups += 1;
  store.leave();
  const answered = send(OPCODE.UNLINK, named(0, "there"));
  interrupt();
  assert.equal(await answered, EINTR);
  const opened = engine.open(known.nodeid, O_WRONLY_TRUNC, 1);
  const refused = assert.rejects(opened, { kind: "stale" });
  const created = engine.create(ROOT_NODEID, "there", O_WRONLY_TRUNC, 1);
  store.comeBack();
  await refused;
  const { handle } = await created;
  await engine.write({ handle: handle, offsetBytes: 0, data: Buffer.from("new") });
  await engine.flush(handle, { pid: 1, owner: "0.1" });
  await settle();
  assert.equal(String(store.body("there")), "new");
  assert.equal(await send(OPCODE.UNLINK, named(0, "other")), ENOENT);
});

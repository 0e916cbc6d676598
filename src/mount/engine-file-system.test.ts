import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { Engine } from "../engine/engine.ts";
import { TEST_CONFIG } from "../engine/test-config.ts";
import { Protocol } from "../fuse/protocol.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { testFileSystem } from "./test-file-system.ts";
import { TestMemory } from "../engine/test-memory.ts";

const CONFIG = {
  ...TEST_CONFIG,
  uid: 1,
  gid: 1,
  reads: { partBytes: 64, longGets: true },
  writePartSizeBytes: 64,
};

interface Message {
  readonly opcode: number;
  readonly nodeid: number;
  readonly words: readonly number[];
  readonly tail: string;
}

const smallNumber = fc.oneof(fc.nat({ max: 8 }), fc.constantFrom(64, 200, 0o1000, 0o1001, 4096));
const message: fc.Arbitrary<Message> = fc.record({
  opcode: fc.oneof(fc.nat({ max: 50 }), fc.constantFrom(1, 3, 9, 14, 15, 16, 18, 25, 28, 35, 44)),
  nodeid: fc.nat({ max: 6 }),
  words: fc.array(smallNumber, { maxLength: 22 }),
  tail: fc.constantFrom("", "a\0", "b\0", "a\0b\0", "data", "..\0", "x".repeat(300) + "\0"),
});

function encode({ opcode, nodeid, words, tail }: Message, unique: number): Buffer {
  const bytes = Buffer.alloc(40 + words.length * 4 + tail.length);
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeUInt32LE(opcode, 4);
  bytes.writeUInt32LE(unique, 8);
  bytes.writeUInt32LE(nodeid, 16);
  for (const [index, word] of words.entries()) bytes.writeUInt32LE(word, 40 + index * 4);
  bytes.write(tail, 40 + words.length * 4, "latin1");
  return bytes;
}

async function run(messages: readonly Message[]): Promise<void> {
  const store = new MemoryStore();
  await store.put("a", Buffer.alloc(500, 1));
  await store.put("d/b", Buffer.alloc(10, 2));
  const bugs: unknown[] = [];
  const engine = new Engine(store, CONFIG, new TestMemory().begin());
  const fileSystem = testFileSystem(engine, CONFIG);
  const onBug = (error: unknown) => bugs.push(error);
  const protocol = new Protocol(fileSystem, {
    idmap: false,
    onNegotiated: () => undefined,
    onBug,
  });
  let answered = 0;
  for (const [index, one] of messages.entries()) {
    protocol.receive(encode(one, index + 1), (reply) => {
      answered += 1;
      reply?.settle(index % 3 !== 0);
    });
    if (index % 4 === 0) await new Promise(setImmediate);
  }
  await new Promise(setImmediate);
  await engine.finish();
  for (let turn = 0; turn < 20 && protocol.pending > 0; turn++) await new Promise(setImmediate);
  assert.deepEqual(bugs, []);
  assert.equal(answered, messages.length);
  assert.equal(protocol.pending, 0);
}

test("whatever the device says, each message is answered once and nothing is a bug", async () => {
  const property = fc.asyncProperty(fc.array(message, { maxLength: 40 }), run);
  await fc.assert(property, { numRuns: 300 });
});

const absent = (error: unknown) => error instanceof Failure && error.kind === "absent";
const exists = (error: unknown) => error instanceof Failure && error.kind === "conflict";

class CountingStore extends MemoryStore {
  heads = 0;
  override async head(key: string) {
    this.heads += 1;
    return super.head(key);
  }
}

test("a name that was looked up just now is created without asking again, once", async () => {
  const store = new CountingStore();
  const caller = { uid: 1, gid: 1, pid: 1, unique: "0.1" };
  const fileSystem = testFileSystem(new Engine(store, CONFIG, new TestMemory().begin()), CONFIG);
  await assert.rejects(async () => fileSystem.lookup(caller, 1, "new"), absent);
  await fileSystem.create(caller, 1, "new", 0o1001);
  assert.equal(store.heads, 1);
  await assert.rejects(fileSystem.create(caller, 1, "new", 0o1001), exists);
  await store.put("other", Buffer.from("x"));
  await assert.rejects(fileSystem.create(caller, 1, "other", 0o1001), exists);
  assert.equal(store.heads, 2);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { Entry, FileSystem } from "./file-system.ts";
import { OPCODE } from "./opcode.ts";
import { Protocol } from "./protocol.ts";
import type { Reply } from "./protocol.ts";

const UNIQUE = Buffer.from("0102030405060780", "hex"); // bit 63 is set: a resent request
const EIO = 5;
const ENOENT = 2;
const ENOSYS = 38;
const EINTR = 4;
const EAGAIN = 11;

function message(
  opcode: number,
  body: Uint8Array = Buffer.alloc(0),
  unique: Buffer = UNIQUE,
): Buffer {
  const header = Buffer.alloc(40);
  header.writeUInt32LE(40 + body.length, 0);
  header.writeUInt32LE(opcode, 4);
  unique.copy(header, 8);
  header.writeUInt32LE(1, 16);
  return Buffer.concat([header, body]);
}

function entry(nodeid: number): Entry {
  const attributes = {
    nodeid,
    kind: "file",
    sizeBytes: 5,
    mtimeMs: 1500,
    mode: 0o644,
    uid: 7,
    gid: 8,
  };
  return { attributes: { ...attributes, kind: "file" }, validMs: 1500 };
}

class FakeError extends Error {}

/** Counts what it lends, so that a test can see whether all of it came back. */
class FakeFileSystem implements FileSystem {
  lent = 0;
  readonly references = new Map<number, number>();
  gate: Promise<void> | undefined;

  errnoOf(error: unknown): number | undefined {
    return error instanceof FakeError ? ENOENT : undefined;
  }
  async lookup(_caller: unknown, _parent: number, name: string): Promise<Entry> {
    await this.gate;
    if (name.startsWith("missing")) throw new FakeError();
    if (name.startsWith("bug")) throw new TypeError("a bug");
    return this.#enter(name.length + 2);
  }
  outcomeOf = () => undefined;
  answered = () => undefined;
  done = () => undefined;
  forget(nodeid: number, count: number): boolean {
    this.references.set(nodeid, (this.references.get(nodeid) ?? 0) - count);
    return true;
  }
  getAttributes: FileSystem["getAttributes"] = (_caller, nodeid) => entry(nodeid);
  setAttributes = (_caller: unknown, nodeid: number) => entry(nodeid);
  makeFile = (_caller: unknown, _parent: number, name: string) => this.#enter(name.length + 2);
  makeDirectory = async (_caller: unknown, _parent: number, name: string) =>
    this.#enter(name.length + 2);
  unmake = (nodeid: number) => void this.forget(nodeid, 1);
  unlink = () => undefined;
  removeDirectory = async () => {
    throw new FakeError();
  };
  rename = () => undefined;
  create = () => ({ entry: this.#enter(9), opened: this.#open() });
  open = async () => this.#open();
  async read(_handle: number, _offset: number, sizeBytes: number) {
    await this.gate;
    this.lent += 1;
    const release = () => void (this.lent -= 1);
    return { chunks: [Buffer.alloc(sizeBytes % 4096, 7)], release };
  }
  write: FileSystem["write"] = ({ data }) => data.length;
  flush = () => undefined;
  sync = async () => undefined;
  release = () => undefined;
  abandon = () => undefined;
  openDirectory = () => 3;
  listDirectory = () => ({
    item: (index: number) =>
      index < 2 ? { name: `n${index}`, kind: "file" as const, nodeid: 0 } : undefined,
    load: async () => undefined,
    enter: (index: number) => this.#enter(20 + index),
  });
  releaseDirectory = () => undefined;

  #open = () => ({ handle: 4, keepCache: true, directIo: false, needsFlush: false });
  #enter(nodeid: number): Entry {
    this.references.set(nodeid, (this.references.get(nodeid) ?? 0) + 1);
    return entry(nodeid);
  }
}

function harness(idmap = false, interruptGraceMs = 0) {
  const fs = new FakeFileSystem();
  const bugs: unknown[] = [];
  const negotiated: unknown[] = [];
  const events = {
    idmap,
    onNegotiated: (agreed: unknown) => negotiated.push(agreed),
    onBug: (error: unknown) => bugs.push(error),
  };
  const protocol = new Protocol(fs, events, interruptGraceMs);
  const exchange = async (bytes: Buffer) => {
    const { promise, resolve } = Promise.withResolvers<Reply | undefined>();
    protocol.receive(bytes, resolve);
    const reply = await promise;
    reply?.settle(true);
    return reply === undefined ? undefined : Buffer.concat(reply.chunks);
  };
  return { fs, bugs, negotiated, protocol, exchange };
}

function parseReply(bytes: Buffer | undefined) {
  assert(bytes !== undefined, "a reply");
  assert.equal(bytes.readUInt32LE(0), bytes.length);
  return {
    error: Math.abs(bytes.readInt32LE(4)),
    unique: bytes.subarray(8, 16),
    payload: bytes.subarray(16),
  };
}

test("a lookup's literal bytes get literal bytes, with the eight bytes of unique as they came", async () => {
  const { exchange } = harness();
  const reply = parseReply(await exchange(message(OPCODE.LOOKUP, Buffer.from("abc\0"))));
  assert.deepEqual(reply.unique, UNIQUE);
  assert.equal(reply.error, 0);
  const words =
    "0500000000000000 0000000000000000 0100000000000000 0100000000000000 0065cd1d 0065cd1d";
  assert.equal(reply.payload.subarray(0, 40).toString("hex"), words.replaceAll(" ", ""));
  assert.equal(reply.payload.readUInt32LE(40 + 60), 0o100644);
  assert.equal(reply.payload.length, 128);
});

test("errors: a Failure has its number, a bug is EIO and reported, an unknown opcode is ENOSYS", async () => {
  const { exchange, bugs } = harness();
  const errnoOf = async (bytes: Buffer) => parseReply(await exchange(bytes)).error;
  assert.equal(await errnoOf(message(OPCODE.LOOKUP, Buffer.from("missing\0"))), ENOENT);
  assert.equal(await errnoOf(message(OPCODE.LOOKUP, Buffer.from("bug\0"))), EIO);
  assert.equal(bugs.length, 1);
  assert.equal(await errnoOf(message(4711)), ENOSYS);
  assert.equal(await errnoOf(message(OPCODE.LOOKUP, Buffer.from([0xff, 0]))), 84); // EILSEQ
});

function initOf(flags2: number): Buffer {
  const body = Buffer.alloc(64);
  body.writeUInt32LE(7, 0);
  body.writeUInt32LE(45, 4);
  body.writeUInt32LE(131072, 8);
  body.writeUInt32LE(0x7fffffff, 12);
  body.writeUInt32LE(flags2, 16);
  return body;
}

async function flags2Of(idmap: boolean, offered: number): Promise<number> {
  const { exchange } = harness(idmap);
  return parseReply(await exchange(message(OPCODE.INIT, initOf(offered)))).payload.readUInt32LE(32);
}

test("INIT: idmapped mounts only where the kernel has them and the mount can bear them", async () => {
  const ALLOW_IDMAP = 1 << 8;
  assert.equal(await flags2Of(true, 0xffffffff), 128 | ALLOW_IDMAP);
  assert.equal(await flags2Of(false, 0xffffffff), 128);
  assert.equal(await flags2Of(true, 128), 128);
});

test("INIT: pages, sizes and resend are negotiated", async () => {
  const { exchange, negotiated } = harness();
  const body = initOf(0xffffffff);
  const { payload } = parseReply(await exchange(message(OPCODE.INIT, body)));
  assert.equal(payload.length, 64);
  assert.equal(payload.readUInt32LE(4), 38);
  assert.equal(payload.readUInt32LE(20), 1 << 20);
  assert.equal(payload.readUInt16LE(28), 256);
  assert.equal(payload.readUInt32LE(32), 128);
  assert.deepEqual(
    negotiated.map((agreed) => Object.entries(agreed ?? {}).at(-1)),
    [["flags2", 128]],
  );
});

test("FORGET and BATCH_FORGET give back exact counts and get no reply", async () => {
  const { exchange, fs } = harness();
  const one = Buffer.alloc(8);
  one.writeUInt32LE(3, 0);
  assert.equal(await exchange(message(OPCODE.FORGET, one)), undefined);
  assert.equal(fs.references.get(1), -3);
  const batch = Buffer.alloc(8 + 32);
  batch.writeUInt32LE(2, 0);
  batch.writeUInt32LE(5, 8);
  batch.writeUInt32LE(1, 16);
  batch.writeUInt32LE(6, 24);
  batch.writeUInt32LE(9, 32);
  assert.equal(await exchange(message(OPCODE.BATCH_FORGET, batch)), undefined);
  assert.deepEqual([fs.references.get(5), fs.references.get(6)], [-1, -9]);
});

function recorder() {
  const replies: (Buffer | undefined)[] = [];
  const respond = (reply: Reply | undefined) => {
    replies.push(reply && Buffer.concat(reply.chunks));
  };
  return { replies, respond };
}

test("an interrupted lookup is answered after its grace, once, and its reference is taken back", async () => {
  const { fs, protocol } = harness();
  const gate = Promise.withResolvers<void>();
  fs.gate = gate.promise;
  const { replies, respond } = recorder();
  protocol.receive(message(OPCODE.LOOKUP, Buffer.from("abc\0")), respond);
  protocol.receive(message(OPCODE.LOOKUP, Buffer.from("abc\0")), respond); // resent: no second one
  assert.deepEqual(replies, [undefined]);
  protocol.receive(message(OPCODE.INTERRUPT, UNIQUE, Buffer.alloc(8, 9)), respond);
  assert.deepEqual(replies, [undefined]);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(parseReply(replies[1]).error, EINTR);
  assert.deepEqual(replies.slice(2), [undefined]);
  gate.resolve();
  await new Promise(setImmediate);
  assert.equal(replies.length, 3);
  assert.equal(fs.references.get(5), 0);
  assert.equal(protocol.pending, 0);
});

test("an interrupted write ends by itself, with what was taken", async () => {
  const { fs, protocol } = harness();
  const { promise: ended, resolve: end } = Promise.withResolvers<number>();
  fs.write = ({ leaving }) => {
    leaving.addEventListener("abort", () => end(5));
    return ended;
  };
  const { replies, respond } = recorder();
  const body = Buffer.alloc(48);
  body.writeUInt32LE(8, 16);
  protocol.receive(message(OPCODE.WRITE, body), respond);
  protocol.receive(message(OPCODE.INTERRUPT, UNIQUE, Buffer.alloc(8, 9)), respond);
  await ended;
  await new Promise(setImmediate);
  assert.deepEqual(replies.slice(1), [undefined]);
  assert.deepEqual([parseReply(replies[0]).error, replies[0]?.readUInt32LE(16)], [0, 5]);
  assert.equal(protocol.pending, 0);
});

function uniqueOf(count: number): Buffer {
  const unique = Buffer.alloc(8);
  unique.writeUInt32LE(count * 2, 0);
  return unique;
}

const interruptOf = (count: number) => message(OPCODE.INTERRUPT, uniqueOf(count), uniqueOf(1000));

test("an INTERRUPT keeps its slot until the request that it names is answered", async () => {
  const { fs, protocol } = harness(false, 500);
  const gate = Promise.withResolvers<void>();
  fs.gate = gate.promise;
  const answered = recorder();
  const [first, second] = [recorder(), recorder()];
  protocol.receive(message(OPCODE.LOOKUP, Buffer.from("abc\0"), uniqueOf(1)), answered.respond);
  protocol.receive(interruptOf(1), first.respond);
  protocol.receive(interruptOf(1), second.respond);
  assert.deepEqual(first.replies, [], "a successor would not learn of it");
  assert.deepEqual(second.replies, [undefined], "one is enough");
  gate.resolve();
  await new Promise(setImmediate);
  assert.equal(parseReply(answered.replies[0]).error, 0);
  assert.deepEqual(first.replies, [undefined]);
});

test("an INTERRUPT that changes nothing leaves its slot at once", async () => {
  const { fs, protocol, exchange } = harness(false, 500);
  const known = Promise.withResolvers<Entry>();
  fs.getAttributes = () => known.promise;
  const { replies, respond } = recorder();
  protocol.receive(message(OPCODE.GETATTR, Buffer.alloc(16), uniqueOf(1)), respond);
  assert.equal(await exchange(interruptOf(1)), undefined, "GETATTR is not cut off");
  known.resolve(entry(1));
  await new Promise(setImmediate);
  assert.equal(replies.length, 1);
  const late = parseReply(await exchange(interruptOf(1)));
  assert.equal(late.error, EAGAIN, "answered already");
  const early = parseReply(await exchange(interruptOf(2)));
  assert.equal(early.error, EAGAIN, "the kernel sends it again behind its request");
});

test("a crowd of interrupted requests leaves slots for others", async () => {
  const { fs, protocol } = harness(false, 500);
  const gate = Promise.withResolvers<void>();
  fs.gate = gate.promise;
  const { replies, respond } = recorder();
  const count = 600;
  for (let n = 1; n <= count; n++) {
    protocol.receive(message(OPCODE.LOOKUP, Buffer.from("abc\0"), uniqueOf(n)), () => undefined);
    protocol.receive(interruptOf(n), respond);
  }
  assert.equal(replies.length, count - 512);
  gate.resolve();
  await new Promise(setImmediate);
  assert.equal(replies.length, count);
});

test("a reply that the kernel did not take gives everything back", async () => {
  const { fs, protocol } = harness();
  const plus = Buffer.alloc(40);
  plus.writeUInt32LE(4096, 16);
  for (const bytes of [
    message(OPCODE.READDIRPLUS, plus),
    message(OPCODE.READ, plus),
    message(OPCODE.CREATE, Buffer.alloc(20, "a\0")),
  ]) {
    const { promise, resolve } = Promise.withResolvers<Reply | undefined>();
    protocol.receive(bytes, resolve);
    (await promise)?.settle(false);
  }
  assert.deepEqual(
    [...fs.references.values()].filter((count) => count !== 0),
    [],
  );
  assert.equal(fs.lent, 0);
});

async function answersEachOnce(messages: readonly Buffer[]): Promise<void> {
  const { protocol, fs, bugs } = harness();
  const counts = messages.map(() => 0);
  for (const [index, bytes] of messages.entries()) {
    protocol.receive(Buffer.from(bytes), (reply) => {
      counts[index] = (counts[index] ?? 0) + 1;
      reply?.settle(true);
    });
  }
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  assert(
    counts.every((count) => count === 1),
    counts.join(","),
  );
  assert.equal(fs.lent, 0);
  assert.equal(protocol.pending, 0);
  assert.deepEqual(bugs, []);
}

test("no bytes crash the protocol or make it reply twice", async () => {
  const opcodes = fc.oneof(
    fc.constantFrom(...Object.values(OPCODE)),
    fc.integer({ min: 0, max: 5000 }),
  );
  const wellFramed = fc.record({
    opcode: opcodes,
    body: fc.uint8Array({ maxLength: 200 }),
    unique: fc.uint8Array({ minLength: 8, maxLength: 8 }),
  });
  const framed = wellFramed.map(({ opcode, body, unique }) =>
    message(opcode, body, Buffer.from(unique)),
  );
  const raw = fc.uint8Array({ maxLength: 120 }).map((bytes) => Buffer.from(bytes));
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(framed, raw), { maxLength: 12 }), answersEachOnce),
    {
      numRuns: 500,
    },
  );
});

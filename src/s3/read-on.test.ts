import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { partHeaders, scripted, signal } from "./test-endpoint.ts";
import type { Answer } from "./test-endpoint.ts";
import type { S3Store } from "./s3-store.ts";

/** Larger than what sockets take in advance: the endpoint has to wait for its reader. */
const OBJECT = Buffer.alloc(48 << 20);
for (let at = 0; at < OBJECT.length; at += 4) OBJECT.writeUInt32LE(at, at);
const PART_BYTES = 4 << 20;

const asAsked: Answer = (response, request) => {
  const [, from, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
  const body = OBJECT.subarray(Number(from), Number(last) + 1);
  const headers = partHeaders(Number(from), body.length, OBJECT.length);
  response.writeHead(206, { "content-length": body.length, ...headers }).end(body);
};

function readOn(store: S3Store, until: AbortSignal) {
  return async (offsetBytes: number, sizeBytes = PART_BYTES) => {
    const into = Buffer.alloc(sizeBytes);
    const goesOn = { endBytes: OBJECT.length, until };
    const pinned = { key: "k", etag: '"e"', objectBytes: OBJECT.length };
    await store.read({ ...pinned, offsetBytes, into, onFilled: () => undefined, goesOn }, signal);
    assert(into.equals(OBJECT.subarray(offsetBytes, offsetBytes + sizeBytes)), `${offsetBytes}`);
  };
}

test("reads one behind the other share one answer, whatever their sizes are", async () => {
  using endpoint = await scripted([asAsked]);
  const read = readOn(endpoint.store, new AbortController().signal);
  const sizes = [1, 70_000, 3, 1 << 20];
  let at = 1000;
  for (let n = 0; at < OBJECT.length; n++) {
    const sizeBytes = Math.min(sizes[n % sizes.length] ?? 1, OBJECT.length - at);
    await read(at, sizeBytes);
    at += sizeBytes;
  }
  assert.deepEqual(endpoint.asked, [`GET /bkt/k bytes=1000-${OBJECT.length - 1}`]);
});

test("the same in chunks", async () => {
  using endpoint = await scripted([
    (response) => {
      response.writeHead(206, partHeaders(0, OBJECT.length, OBJECT.length));
      for (let at = 0; at < OBJECT.length; at += 9999) {
        response.write(OBJECT.subarray(at, at + 9999));
      }
      response.end();
    },
  ]);
  const read = readOn(endpoint.store, new AbortController().signal);
  for (let at = 0; at < OBJECT.length; at += PART_BYTES) await read(at);
  assert.equal(endpoint.asked.length, 1);
});

test("a connection that is lost meanwhile is made again where it was left", async () => {
  using endpoint = await scripted([asAsked, asAsked]);
  const read = readOn(endpoint.store, new AbortController().signal);
  await read(0);
  endpoint.server.closeAllConnections();
  await read(PART_BYTES);
  await read(2 * PART_BYTES);
  assert.equal(endpoint.asked.length, 2);
  const [, from] = /bytes=(\d+)-/.exec(endpoint.asked[1] ?? "") ?? [];
  assert(Number(from) >= PART_BYTES, "nothing is fetched twice");
});

test("a read elsewhere asks for itself, and another reader has its own answer", async () => {
  using endpoint = await scripted([asAsked, asAsked, asAsked]);
  const one = readOn(endpoint.store, new AbortController().signal);
  const other = readOn(endpoint.store, new AbortController().signal);
  await one(0);
  await other(PART_BYTES);
  await one(3 * PART_BYTES);
  await other(2 * PART_BYTES);
  await one(4 * PART_BYTES);
  assert.equal(endpoint.asked.length, 3);
});

test("the connection of a reader that does not go on is closed", async () => {
  using endpoint = await scripted([asAsked]);
  const stop = new AbortController();
  const sockets: Socket[] = [];
  endpoint.server.on("connection", (socket) => sockets.push(socket));
  await readOn(endpoint.store, stop.signal)(0);
  const closed = Promise.all(
    sockets.map((socket) => {
      socket.on("error", () => undefined); // reset: there was more to come
      return new Promise((resolve) => socket.once("close", resolve));
    }),
  );
  stop.abort();
  assert.equal((await closed).length, 1);
});

test("of many half-read answers the oldest are given up", async () => {
  using endpoint = await scripted(Array.from({ length: 21 }, () => asAsked));
  const readers = Array.from({ length: 20 }, () => {
    return readOn(endpoint.store, new AbortController().signal);
  });
  for (const read of readers) await read(0);
  await readers[19]?.(PART_BYTES); // goes on
  assert.equal(endpoint.asked.length, 20);
  await readers[0]?.(0);
  assert.equal(endpoint.asked.length, 21);
});

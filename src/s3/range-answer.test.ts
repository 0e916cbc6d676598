import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { fails, partHeaders, scripted, signal } from "./test-endpoint.ts";
import type { Answer } from "./test-endpoint.ts";

const OBJECT = Buffer.from("the first version of the object");
const OTHER = Buffer.from("THE OTHER VERSION OF THE OBJECT");
const [FROM, END] = [4, 9];

type Headers = Readonly<Record<string, string | number>>;

/** An endpoint that ignores If-Match and answers every request alike. */
async function readFrom(answer: Answer, [from, end]: readonly [number, number] = [FROM, END]) {
  using endpoint = await scripted([answer, answer, answer, answer]);
  const into = Buffer.alloc(end - from);
  let shown = 0;
  const onFilled = (filledBytes: number) => (shown = filledBytes);
  const pinned = { key: "k", etag: '"e"', objectBytes: OBJECT.length };
  const range = { ...pinned, offsetBytes: from, into, onFilled };
  const failure = await endpoint.store.read(range, signal).then(
    () => undefined,
    (error: unknown) => error,
  );
  return { failure, shown, text: into.toString(), requests: endpoint.asked.length };
}

const part = (body: Buffer, headers: Headers, status = 206): Answer => {
  return (response) => response.writeHead(status, headers).end(body);
};

const asAsked = OBJECT.subarray(FROM, END);
const theirs = OTHER.subarray(FROM, END);
const right = partHeaders(FROM, asAsked.length, OBJECT.length);
const range = (text: string): Headers => ({ etag: '"e"', "content-range": text });

test("an answer with the right ETag and Content-Range is shown, with or without quotes", async () => {
  for (const etag of ['"e"', "e"]) {
    const { failure, text } = await readFrom(part(asAsked, { ...right, etag }));
    assert.equal(failure, undefined);
    assert.equal(text, asAsked.toString());
  }
});

// prettier-ignore
const refused: [what: string, answer: Answer, kind: string, requests: number][] = [
  ["another ETag",           part(theirs, { ...right, etag: '"other"' }),     "stale",  1],
  ["another ETag with 200",  part(OTHER, { etag: '"other"' }, 200),           "stale",  1],
  ["another size",           part(theirs, range("bytes 4-8/32")),             "stale",  1],
  ["no ETag",                part(theirs, { "content-range": "bytes 4-8/31" }), "remote", 1],
  ["an empty ETag",          part(theirs, { ...right, etag: '""' }),          "remote", 1],
  ["an empty weak ETag",     part(theirs, { ...right, etag: 'W/""' }),        "remote", 1],
  ["another start",          part(theirs, range("bytes 5-9/31")),             "remote", 4],
  ["another end",            part(theirs, range("bytes 4-7/31")),             "remote", 4],
  ["no Content-Range",       part(theirs, { etag: '"e"' }),                   "remote", 4],
  ["an unknown size",        part(theirs, range("bytes 4-8/*")),              "remote", 4],
  ["another unit",           part(theirs, range("lines 4-8/31")),             "remote", 4],
  ["the whole object",       part(OTHER, { etag: '"e"' }, 200),               "remote", 4],
  ["no content",             part(Buffer.alloc(0), { etag: '"e"' }, 204),     "remote", 4],
];
for (const [what, answer, kind, requests] of refused) {
  test(`a range is refused as ${kind}, and no byte of it is shown: ${what}`, async () => {
    const read = await readFrom(answer);
    assert(read.failure instanceof Failure, String(read.failure));
    assert.equal(read.failure.kind, kind);
    assert.match(read.failure.message, /^GET k: /);
    assert.equal(read.shown, 0);
    assert.equal(read.text, "\0".repeat(asAsked.length));
    assert.equal(read.requests, requests);
  });
}

test("a 200 is accepted when the whole object was asked for", async () => {
  const all = [0, OBJECT.length] as const;
  const whole = { etag: '"e"', "content-length": OBJECT.length };
  const { failure, text } = await readFrom(part(OBJECT, whole, 200), all);
  assert.equal(failure, undefined);
  assert.equal(text, OBJECT.toString());
  const unknown = await readFrom(part(OBJECT, { etag: '"e"' }, 200), all);
  assert(unknown.failure instanceof Failure && unknown.failure.kind === "remote");
  assert.equal(unknown.shown, 0, "its length would only be known at its end");
  const headers = { etag: '"e"', "content-length": OBJECT.length - 1 };
  const shorter = await readFrom(part(OBJECT.subarray(1), headers, 200), all);
  assert(shorter.failure instanceof Failure && shorter.failure.kind === "stale");
});

test("a refused answer leaves its connection, and the next one is read in full", async () => {
  const served = part(asAsked, right);
  const wrong = part(Buffer.alloc(1 << 20, "x"), { etag: '"e"' }, 200);
  using endpoint = await scripted([served, wrong, served]);
  const pinned = { key: "k", etag: '"e"', objectBytes: OBJECT.length };
  for (let n = 0; n < 2; n++) {
    const into = Buffer.alloc(END - FROM);
    await endpoint.store.read(
      { ...pinned, offsetBytes: FROM, into, onFilled: () => undefined },
      signal,
    );
    assert.equal(into.toString(), asAsked.toString());
  }
  assert.equal(endpoint.asked.length, 3);
});

test("a continuation is checked when the connection was lost and another version is there", async () => {
  const first: Answer = (response) => {
    const headers = partHeaders(0, OBJECT.length, OBJECT.length);
    response
      .writeHead(206, { "content-length": OBJECT.length, ...headers })
      .write(OBJECT.subarray(0, 12), () => response.destroy());
  };
  const headers = { etag: '"other"', "content-range": "bytes 12-30/31" };
  using endpoint = await scripted([first, part(OTHER.subarray(12), headers)]);
  const goesOn = { endBytes: OBJECT.length, until: new AbortController().signal };
  const read = async (offsetBytes: number, sizeBytes: number) => {
    const into = Buffer.alloc(sizeBytes);
    const pinned = { key: "k", etag: '"e"', objectBytes: OBJECT.length, goesOn };
    await endpoint.store.read({ ...pinned, offsetBytes, into, onFilled: () => undefined }, signal);
    return into.toString();
  };
  assert.equal(await read(0, 12), OBJECT.toString("latin1", 0, 12));
  await assert.rejects(read(12, 19), (error) => error instanceof Failure && error.kind === "stale");
});

test("an object without an ETag is refused by name, before any byte of it is asked for", async () => {
  const bare = part(Buffer.alloc(0), { "x-amz-id-2": "no ETag" }, 200);
  using endpoint = await scripted([bare, fails(404, "NoSuchKey")]);
  await assert.rejects(endpoint.store.head("dir/k", signal), /HEAD dir\/k: the object has no ETag/);
  assert.equal(await endpoint.store.head("dir/k", signal), undefined);
  const into = Buffer.alloc(3);
  const pinned = { key: "dir/k", etag: "", objectBytes: 3 };
  const read = endpoint.store.read(
    { ...pinned, offsetBytes: 0, into, onFilled: () => undefined },
    signal,
  );
  await assert.rejects(read, /GET dir\/k: no ETag/);
  assert.equal(endpoint.asked.length, 2);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { fails, scripted, signal } from "./test-endpoint.ts";
import type { Answer } from "./test-endpoint.ts";

const BODY = Buffer.from("0123456789");
const NONCE = "5f0c";

const stored: Answer = (response) => response.writeHead(200, { etag: '"e"' }).end();
const removed: Answer = (response) => response.writeHead(204).end();
const ours: Answer = (response) =>
  response.writeHead(200, { etag: '"o"', "x-amz-meta-s3csi-upload": NONCE }).end();
const foreign: Answer = (response) =>
  response.writeHead(200, { etag: '"x"', "x-amz-meta-s3csi-upload": "other" }).end();
const same: Answer = (response) => response.writeHead(200, { etag: '"e"' }).end();
const silence: Answer = () => undefined;
const lost: Answer = (response) => void response.destroy();
const absent = fails(404, "NoSuchKey");

/** The first request makes a connection that is kept; the second one breaks on it. */
const kept: Answer = (response) =>
  response.writeHead(200, { etag: '"e"', "content-length": 3 }).end();

// prettier-ignore
const puts: [what: string, script: Answer[], etag: string, asked: string[]][] = [
  ["executed",          [kept, lost, ours],            '"o"', ["HEAD", "PUT", "HEAD"]],
  ["not executed",      [kept, lost, absent, stored],  '"e"', ["HEAD", "PUT", "HEAD", "PUT"]],
  ["replaced meanwhile", [kept, lost, foreign, stored], '"e"', ["HEAD", "PUT", "HEAD", "PUT"]],
];
for (const [what, script, etag, asked] of puts) {
  test(`a PUT on a stale connection is sent again after a look only: ${what}`, async () => {
    using endpoint = await scripted(script);
    await endpoint.store.head("other", signal);
    assert.deepEqual(await endpoint.store.put("k", BODY, NONCE, signal), { etag });
    assert.deepEqual(verbsOf(endpoint.asked), asked);
  });
}

// prettier-ignore
const deletes: [what: string, script: Answer[], etag: string | undefined, asked: string[]][] = [
  ["executed",          [kept, lost, absent],        '"e"', ["HEAD", "DELETE", "HEAD"]],
  ["not executed",      [kept, lost, same, removed], '"e"', ["HEAD", "DELETE", "HEAD", "DELETE"]],
  ["a newer object",    [kept, lost, foreign],       '"e"', ["HEAD", "DELETE", "HEAD"]],
  ["any version meant", [kept, lost, removed],   undefined, ["HEAD", "DELETE", "DELETE"]],
];
for (const [what, script, etag, asked] of deletes) {
  test(`a DELETE on a stale connection: ${what}`, async () => {
    using endpoint = await scripted(script);
    await endpoint.store.head("other", signal);
    await endpoint.store.delete("k", signal, etag);
    assert.deepEqual(verbsOf(endpoint.asked), asked);
  });
}

test("a part on a stale connection is sent again at once: twice is the same as once", async () => {
  using endpoint = await scripted([kept, lost, stored]);
  await endpoint.store.head("other", signal);
  const part = await endpoint.store.uploadPart("k", "u", 1, BODY, signal);
  assert.equal(part.etag, '"e"');
  assert.deepEqual(verbsOf(endpoint.asked), ["HEAD", "PUT", "PUT"]);
});

test("a write on a stale connection costs no attempt", async () => {
  const oops = fails(500); // leaves open whether the object is there, so that it is looked for
  using endpoint = await scripted([kept, lost, absent, oops, absent, oops, absent, oops, ours]);
  await endpoint.store.head("other", signal);
  assert.equal((await endpoint.store.put("k", BODY, NONCE, signal)).etag, '"o"');
});

test("silence on a kept connection is charged to the budget", async () => {
  using endpoint = await scripted([kept, silence, stored]);
  await endpoint.store.head("other", signal);
  const failure = endpoint.transport.send({ method: "GET", key: "k" }, signal);
  await assert.rejects(failure, (error) => {
    return error instanceof Error && "lostMs" in error && Number(error.lostMs) >= 450;
  });
});

function verbsOf(asked: readonly string[]): string[] {
  return asked.map((line) => line.split(" ")[0] ?? "");
}

import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { readListPage } from "./list-page.ts";
import { fails, scripted, signal } from "./test-endpoint.ts";
import type { Answer } from "./test-endpoint.ts";

const isRemote = (pattern: RegExp) => (error: unknown) =>
  error instanceof Failure && error.kind === "remote" && pattern.test(error.message);

const unquoted: Answer = (response) =>
  response.writeHead(200, { etag: "e", "content-length": 3 }).end();
const quoted: Answer = (response) =>
  response.writeHead(200, { etag: '"e"', "content-length": 3 }).end();
const removed: Answer = (response) => response.writeHead(204).end();
const found: Answer = (response) =>
  response.writeHead(200, { etag: "e", "x-amz-meta-s3csi-upload": "n" }).end();

test("an ETag is the same with and without quotes, in every answer", async () => {
  const completed = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>";
  using endpoint = await scripted([
    unquoted,
    (response) => response.writeHead(200, { etag: "e" }).end(),
    (response) => response.end(completed),
  ]);
  const { store } = endpoint;
  const fields = "<ETag>e</ETag><Size>3</Size>";
  const rows = [fields, `${fields}<Owner/>`].map((row) => readListPage(rowOf(row)).objects[0]);
  assert.deepEqual(
    [
      (await store.head("k", signal))?.etag,
      (await store.put("k", Buffer.from("x"), "n", signal)).etag,
      (await store.completeUpload("k", "u", [], "n", signal)).etag,
      ...rows.map((row) => row?.etag),
    ],
    Array(5).fill('"e"'),
  );
});

for (const empty of ['""', 'W/""']) {
  test(`the ETag ${empty} identifies no version: it counts as none in every answer`, async () => {
    const headers = { etag: empty, "content-length": 3 };
    using endpoint = await scripted([(response) => response.writeHead(200, headers).end()]);
    await assert.rejects(endpoint.store.head("k", signal), isRemote(/HEAD k: .*no ETag/));
    const fields = `<ETag>${empty.replaceAll('"', "&quot;")}</ETag><Size>3</Size>`;
    const rows = [fields, `${fields}<Owner/>`].map((row) => readListPage(rowOf(row)).objects[0]);
    assert.deepEqual(
      rows.map((row) => row?.etag),
      ["", ""],
    );
  });
}

test("the object that a lost answer was about is found by its ETag, quoted or not", async () => {
  for (const [etag, settled] of [
    ["e", quoted],
    ['"e"', unquoted],
  ] as const) {
    using endpoint = await scripted([fails(500), settled, removed, found]);
    await endpoint.store.delete("k", signal, etag);
    assert.deepEqual(endpoint.asked, ["DELETE /bkt/k", "HEAD /bkt/k", "DELETE /bkt/k"]);
    assert.equal(await endpoint.store.findOwn("k", "n", signal), '"e"');
  }
});

const rowOf = (fields: string) =>
  `<ListBucketResult><Contents><Key>k</Key>${fields}</Contents></ListBucketResult>`;

for (const length of ["transfer-encoding: chunked", "content-length:", "content-length: 0x10"]) {
  test(`a HEAD answer with "${length}" is an error, not an empty object`, async () => {
    using endpoint = await scripted([
      (response) => {
        response.socket?.write(`HTTP/1.1 200 OK\r\netag: "e"\r\n${length}\r\n\r\n`);
      },
    ]);
    await assert.rejects(endpoint.store.head("k", signal), isRemote(/HEAD k: .*Content-Length/));
  });
}

for (const [what, size] of [
  ["no Size", ""],
  ["an empty Size", "<Size></Size>"],
  ["a Size that is no number", "<Size>1e3</Size>"],
] as const) {
  for (const [how, extra] of [
    ["a row", ""],
    ["a tree", "<Owner/>"],
  ]) {
    test(`an object with ${what} in ${how} of a listing is an error`, () => {
      const page = readListPage(rowOf(`<ETag>"e"</ETag>${size}${extra}`));
      assert.throws(() => page.objects, isRemote(/Size of k/));
    });
  }
}

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { fails, scripted, signal } from "./test-endpoint.ts";
import type { Answer } from "./test-endpoint.ts";
import { checksumOf, CHECKSUM_KINDS } from "./upload-checksum.ts";
import { UploadIntegrity } from "./upload-integrity.ts";

const HEADER = "x-amz-checksum-crc32";
const SMALL = Buffer.from("0123456789");
const LARGE = Buffer.alloc(1 << 20, 7);
const md5 = (body: Buffer) => createHash("md5").update(body).digest("base64");

const MARK = "x-amz-meta-s3csi-upload";
const NONCE = "n";
const own: Answer = (response) => response.writeHead(200, { etag: '"e"', [MARK]: NONCE }).end();
const ignore = () => undefined;

type Kind = "verifies" | "ignores";

/** A server of that kind; what each request carried is in `sent`. */
function answering(kinds: Kind[], sent: (string | undefined)[]): Answer[] {
  return kinds.map((kind) => (response, request) => {
    sent.push(request.headers["content-md5"]?.toString());
    const sum = request.headers[HEADER];
    assert(typeof sum === "string");
    response.writeHead(200, { etag: '"e"', ...(kind === "verifies" ? { [HEADER]: sum } : {}) });
    response.end();
  });
}

// prettier-ignore
const lives: [what: string, kinds: Kind[], withMd5: boolean[]][] = [
  ["verified from the first answer on",        ["verifies", "verifies", "verifies"], [true, false, false]],
  ["never verified",                           ["ignores", "ignores", "ignores"],    [true, true, true]],
  ["by an older server of the same endpoint",  ["verifies", "ignores", "ignores", "verifies"],
                                                                             [true, false, true, true]],
];
for (const [what, kinds, withMd5] of lives) {
  test(`a checksum that is ${what}: Content-MD5 is sent where it has to be`, async () => {
    for (const upload of ["put", "part"] as const) {
      const sent: (string | undefined)[] = [];
      const script = answering(kinds, sent);
      const isSentTwice = kinds.length === 4;
      if (isSentTwice && upload === "put") script.splice(2, 0, own); // looked at in between
      using endpoint = await scripted(script);
      const uploads = isSentTwice ? 3 : kinds.length;
      for (let count = 0; count < uploads; count++) {
        if (upload === "put") await endpoint.store.put("k", SMALL, "n", signal);
        else await endpoint.store.uploadPart("k", "u", 1, SMALL, signal);
      }
      const expected = withMd5.map((isSent) => (isSent ? md5(SMALL) : undefined));
      assert.deepEqual(sent, expected, upload);
    }
  });
}

const DAMAGED = '"damaged"';
const damaging: Answer = (response) => {
  response.writeHead(200, { etag: DAMAGED, [HEADER]: "AAAAAA==" }).end();
};
const ownDamaged: Answer = (response) =>
  response.writeHead(200, { etag: DAMAGED, [MARK]: NONCE }).end();
const foreign: Answer = (response) =>
  response.writeHead(200, { etag: '"x"', [MARK]: "other" }).end();
const absent = fails(404, "NoSuchKey");
const lost: Answer = (response) => void response.destroy();
const [verifying = lost] = answering(["verifies"], []);
const verbsOf = (asked: readonly string[]) => asked.map((line) => line.split(" ")[0]);

// prettier-ignore
const repeated: [what: string, script: Answer[], asked: string[]][] = [
  ["the object is the unproven one",    [damaging, ownDamaged, verifying],  ["PUT", "HEAD", "PUT"]],
  ["somebody has deleted the object",   [damaging, absent, verifying],      ["PUT", "HEAD", "PUT"]],
  ["a second attempt was lost",         [damaging, ownDamaged, lost, ownDamaged, verifying],
                                                        ["PUT", "HEAD", "PUT", "HEAD", "PUT"]],
];
for (const [what, script, asked] of repeated) {
  test(`a PUT whose body was stored with another checksum is sent again: ${what}`, async () => {
    using endpoint = await scripted(script);
    assert.equal((await endpoint.store.put("k", SMALL, NONCE, signal)).etag, '"e"');
    assert.deepEqual(verbsOf(endpoint.asked), asked);
  });
}

test("what another client has put in place of an unproven object is not replaced", async () => {
  using endpoint = await scripted([damaging, foreign, verifying]);
  await assert.rejects(
    endpoint.store.put("k", SMALL, NONCE, signal),
    /^.*k: stored with x-amz-checksum-crc32 AAAAAA==.*; another client has replaced it since$/,
  );
  assert.deepEqual(verbsOf(endpoint.asked), ["PUT", "HEAD"]);
});

test("a PUT that was stored unverified is sent again, not settled by its mark", async () => {
  const sent: (string | undefined)[] = [];
  const [first = lost, second = lost, third = lost] = answering(
    ["verifies", "ignores", "ignores"],
    sent,
  );
  using endpoint = await scripted([first, second, own, third]);
  await endpoint.store.put("k", SMALL, NONCE, signal);
  await endpoint.store.put("k", SMALL, NONCE, signal);
  assert.deepEqual(verbsOf(endpoint.asked), ["PUT", "PUT", "HEAD", "PUT"]);
  assert.deepEqual(sent, [md5(SMALL), undefined, md5(SMALL)]);
});

test("an unproven object that can't be replaced is an error, and the log names it", async () => {
  const warnings: unknown[] = [];
  const warn = (facts: object | string, message?: string) =>
    void warnings.push([message, "key" in Object(facts) && Object(facts).key]);
  const log = { debug: ignore, info: ignore, warn, error: ignore };
  const oops = fails(501, "NotImplemented");
  using endpoint = await scripted([damaging, ownDamaged, oops], { log });
  await assert.rejects(endpoint.store.put("k", SMALL, NONCE, signal), /NotImplemented/);
  assert.deepEqual(warnings, [["unverified object could not be replaced", "k"]]);
});

test("a part that was stored with another checksum is sent again at once", async () => {
  using endpoint = await scripted([damaging, verifying]);
  assert.equal((await endpoint.store.uploadPart("k", "u", 1, SMALL, signal)).etag, '"e"');
  assert.deepEqual(verbsOf(endpoint.asked), ["PUT", "PUT"]);
});

test("a damaged body that the server finds by Content-MD5 is sent again", async () => {
  const sent: (string | undefined)[] = [];
  const script = [fails(400, "BadDigest"), ...answering(["ignores"], sent)];
  using endpoint = await scripted(script);
  await endpoint.store.uploadPart("k", "u", 1, LARGE, signal);
  assert.deepEqual(sent, [md5(LARGE)]);
});

test("large bodies are summed up by a few threads, however many come at once", async () => {
  const integrity = new UploadIntegrity(CHECKSUM_KINDS.crc32, undefined);
  const bodies = Array.from({ length: 1000 }, (_, n) => LARGE.subarray(0, 70_000 + n));
  const sums = await Promise.all(
    bodies.map(async (body) => (await integrity.proofOf(body)).headers()),
  );
  for (const [n, body] of bodies.entries()) {
    if (n % 100 !== 0) continue;
    const crc = await checksumOf(CHECKSUM_KINDS.crc32, body);
    assert.deepEqual(sums[n], { [HEADER]: crc, "content-md5": md5(body) });
  }
});

test("without a kind of checksum nothing is verified", async () => {
  const proof = await new UploadIntegrity(undefined, undefined).proofOf(SMALL);
  assert.deepEqual(await proof.headers(), {});
  proof.check(new Map());
});

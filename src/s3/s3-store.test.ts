import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { KeyTooLongFailure } from "./s3-error.ts";
import type { S3Store } from "./s3-store.ts";
import type { TransportOptions } from "./s3-transport.ts";
import { fails, partHeaders, scripted, signal } from "./test-endpoint.ts";
import type { Answer } from "./test-endpoint.ts";
import { checksumOf, CHECKSUM_KINDS } from "./upload-checksum.ts";

const BODY = Buffer.from("0123456789");
const OBJECT_BYTES = 1000;

/** An answer with the bytes from `fromBytes` to 109, the last one that readAll() asks for. */
const served =
  (fromBytes = 100): Answer =>
  (response) => {
    const rest = BODY.subarray(fromBytes - 100);
    response.writeHead(206, partHeaders(fromBytes, rest.length, OBJECT_BYTES)).end(rest);
  };

async function readAll(store: S3Store): Promise<string> {
  const into = Buffer.alloc(BODY.length);
  const pinned = { key: "k", etag: '"e"', objectBytes: OBJECT_BYTES };
  await store.read({ ...pinned, offsetBytes: 100, into, onFilled: () => undefined }, signal);
  return into.toString();
}

test("a body cut short is continued where it broke", async () => {
  using endpoint = await scripted([
    (response) => {
      response
        .writeHead(206, { "content-length": 10, ...partHeaders(100, 10, OBJECT_BYTES) })
        .write(BODY.subarray(0, 4), () => response.destroy());
    },
    served(104),
  ]);
  assert.equal(await readAll(endpoint.store), BODY.toString());
  assert.deepEqual(endpoint.asked, ["GET /bkt/k bytes=100-109", "GET /bkt/k bytes=104-109"]);
});

test("a body that is complete is taken although the end of its answer was lost", async () => {
  using endpoint = await scripted([
    (response) => {
      const { etag, "content-range": range } = partHeaders(100, 10, OBJECT_BYTES);
      const head = `HTTP/1.1 206 x\r\netag: ${etag}\r\ncontent-range: ${range}\r\n`;
      const chunk = `transfer-encoding: chunked\r\n\r\na\r\n${BODY.toString()}\r\n`;
      response.socket?.write(head + chunk, () => response.socket?.destroy());
    },
  ]);
  assert.equal(await readAll(endpoint.store), BODY.toString());
  assert.deepEqual(endpoint.asked, ["GET /bkt/k bytes=100-109"]);
});

const lost: Answer = (response) => void response.destroy();
const silence: Answer = () => undefined;
/** As at the end of a long transfer. */
const slow: Answer = (response, request) => {
  setTimeout(() => fails(503, "SlowDown")(response, request), 300);
};

test("overload, silence and lost connections are waited out, however many there are", async () => {
  const away = [fails(503, "SlowDown"), () => undefined, fails(429, "TooManyRequests")];
  const answers = [...away, lost, lost, lost];
  using endpoint = await scripted([...answers, served()]);
  assert.equal(await readAll(endpoint.store), BODY.toString());
  assert.equal(endpoint.asked.length, 7, "more than the 4 attempts that a fault gets");
});

test("a refusal at the end of a transfer longer than the outage limit is tried again", async () => {
  const policy = { attemptsMax: 4, windowMs: 150 };
  using endpoint = await scripted([slow, stored], {}, policy);
  assert.equal((await endpoint.store.uploadPart("k", "u", 1, BODY, signal)).etag, '"e"');
  assert.equal(endpoint.asked.length, 2);
});

test("an endpoint that never answers is given up after about the outage limit", async () => {
  const policy = { attemptsMax: 4, windowMs: 900 };
  using endpoint = await scripted([silence, silence, silence, silence], {}, policy);
  await assert.rejects(readAll(endpoint.store), /no answer in time/);
  assert.equal(endpoint.asked.length, 2, "2 × 0.5 s");
});

test("a fault of the endpoint is tried again within the number of attempts", async () => {
  const broken = fails(500, "InternalError");
  using hopeless = await scripted([broken, broken, broken, broken, broken]);
  await assert.rejects(
    readAll(hopeless.store),
    (error) => error instanceof Failure && error.kind === "remote",
  );
  assert.equal(hopeless.asked.length, 4);
});

// prettier-ignore
const verdicts: [status: number, code: string, kind: string][] = [
  [412, "PreconditionFailed", "stale"],
  [416, "InvalidRange",       "stale"],
  [403, "AccessDenied",       "denied"],
  [404, "NoSuchKey",          "absent"],
  [400, "InvalidRequest",     "remote"],
  [400, "InvalidArgument",    "invalid"],
  [400, "InvalidInput",       "invalid"],
  [400, "KeyTooLong",         "invalid"],
  [400, "KeyTooLongError",    "invalid"],
];
for (const [status, code, kind] of verdicts) {
  test(`${status} ${code} is ${kind}, at once`, async () => {
    using endpoint = await scripted([fails(status, code)]);
    await assert.rejects(
      readAll(endpoint.store),
      (error) => error instanceof Failure && error.kind === kind && error.message.includes(code),
    );
    assert.equal(endpoint.asked.length, 1);
  });
}

const mute: Answer = (response) => response.writeHead(400).end();

test("a HEAD that was refused without a reason is explained by a GET", async () => {
  using endpoint = await scripted([mute, fails(400, "KeyTooLong"), mute, served(100)]);
  await assert.rejects(endpoint.store.head("k", signal), KeyTooLongFailure);
  await assert.rejects(endpoint.store.head("k", signal), /HEAD .*: HTTP 400/, "GET has no reason");
  const explained = ["HEAD /bkt/k", "GET /bkt/k bytes=0-0"];
  assert.deepEqual(endpoint.asked, [...explained, ...explained]);
});

const emptyListing: Answer = (response) => response.end("<ListBucketResult></ListBucketResult>");
// prettier-ignore
const owners: [what: string, answer: Answer, checks: boolean][] = [
  ["refuses another owner checks owners",   fails(403, "AccessDenied"), true],
  ["serves another owner does not check",   emptyListing,               false],
];
for (const [what, answer, checks] of owners) {
  test(`a server that ${what}`, async () => {
    const asOwner: string[] = [];
    const listening: Answer = (response, request) => {
      asOwner.push(String(request.headers["x-amz-expected-bucket-owner"]));
      answer(response, request);
    };
    const extraHeaders = { "x-amz-expected-bucket-owner": "7" };
    using endpoint = await scripted([listening, listening], { extraHeaders });
    assert.equal(await endpoint.store.checksOwner("", "7", 5_000), checks);
    assert.equal(await endpoint.store.checksOwner("", "000000000000", 5_000), checks);
    assert.deepEqual(asOwner, ["000000000000", "111111111111"]);
  });
}

test("a kept connection that the endpoint closed is no failure", async () => {
  using endpoint = await scripted([served(), served()]);
  await readAll(endpoint.store);
  endpoint.server.closeIdleConnections();
  assert.equal(await readAll(endpoint.store), BODY.toString());
});

const foreign: Answer = (response) =>
  response.writeHead(200, { etag: '"x"', "x-amz-meta-s3csi-upload": "other" }).end();
const NONCE = "5f0c";
test("a lost answer to the completion is settled by the upload's own mark", async () => {
  let nonce = "";
  const uploads: Answer = (response, request) => {
    nonce = String(request.headers["x-amz-meta-s3csi-upload"]);
    response.end(
      "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
    );
  };
  const found: Answer = (response) =>
    response.writeHead(200, { etag: '"done"', "x-amz-meta-s3csi-upload": nonce }).end();
  using endpoint = await scripted([
    uploads,
    (response) => void response.destroy(),
    fails(404, "NoSuchUpload"),
    found,
  ]);
  const uploadId = await endpoint.store.createUpload("k", NONCE, signal);
  const done = await endpoint.store.completeUpload(
    "k",
    uploadId,
    [{ partNumber: 1, etag: '"p"' }],
    NONCE,
    signal,
  );
  assert.equal(done.etag, '"done"');

  using other = await scripted([
    uploads,
    (response) => void response.destroy(),
    fails(404, "NoSuchUpload"),
    foreign,
  ]);
  const otherId = await other.store.createUpload("k", NONCE, signal);
  await assert.rejects(
    other.store.completeUpload("k", otherId, [], NONCE, signal),
    (error) => error instanceof Failure && error.kind === "absent",
  );
});

test("a body carries its checksum, and is sent again when it was damaged on its way", async () => {
  const sums: unknown[] = [];
  const damaged: Answer = (response, request) => {
    sums.push(request.headers["x-amz-checksum-crc32"]);
    fails(400, "BadDigest")(response, request);
  };
  const stored: Answer = (response, request) => {
    sums.push(request.headers["x-amz-checksum-crc32"]);
    response.writeHead(200, { etag: '"e"' }).end();
  };
  using endpoint = await scripted([damaged, stored, stored]);
  const sum = await checksumOf(CHECKSUM_KINDS.crc32, BODY);
  await endpoint.store.put("k", BODY, NONCE, signal);
  const part = await endpoint.store.uploadPart("k", "u", 1, BODY, signal);
  assert.deepEqual(sums, [sum, sum, sum]);
  assert.deepEqual(part, { partNumber: 1, etag: '"e"', checksum: sum });
});

test("a completion that says 200 and fails in its document is tried again", async () => {
  using endpoint = await scripted([
    (response) => response.end("<Error><Code>InternalError</Code></Error>"),
    (response) =>
      response.end(
        "<CompleteMultipartUploadResult><ETag>&quot;e-1&quot;</ETag></CompleteMultipartUploadResult>",
      ),
  ]);
  assert.deepEqual(await endpoint.store.completeUpload("k", "u", [], NONCE, signal), {
    etag: '"e-1"',
  });
});

test("an endpoint that is not there is named", async () => {
  using endpoint = await scripted([]);
  endpoint[Symbol.dispose]();
  await assert.rejects(
    endpoint.store.probe("", 5_000),
    /can't reach the endpoint 127\.0\.0\.1:\d+: .*ECONNREFUSED/,
  );
});

const BEGAN_MS = Date.parse("2026-11-15T12:00:00Z");
const uploadOf = (key: string, id: string, initiated: string) =>
  `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${initiated}</Initiated></Upload>`;
const uploadsListed: Answer = (response) => {
  const uploads = [
    uploadOf("d%2Fk", "older", "2026-11-15T11:59:00.000Z"),
    uploadOf("d%2Fk", "busy", "2026-11-15T12:00:01.000Z"),
    uploadOf("d%2Fk", "ended", "2026-11-15T12:00:01.000Z"),
    uploadOf("d%2Fk", "stray", "2026-11-15T11:59:58.000Z"), // their clock is behind ours
    uploadOf("d%2Fk2", "longer", "2026-11-15T12:00:01.000Z"),
    uploadOf("d%2Fk", "later", "2026-11-15T12:30:06.000Z"),
  ];
  const type = "<EncodingType>url</EncodingType>";
  response.end(
    `<ListMultipartUploadsResult>${type}${uploads.join("")}</ListMultipartUploadsResult>`,
  );
};
const withParts: Answer = (response) =>
  response.end("<ListPartsResult><Part><PartNumber>1</PartNumber></Part></ListPartsResult>");
const withoutParts: Answer = (response) => response.end("<ListPartsResult></ListPartsResult>");
const removed: Answer = (response) => response.writeHead(204).end();

test("strays: only uploads without parts, of exactly this key, begun in that time", async () => {
  const gone = fails(404, "NoSuchUpload");
  using endpoint = await scripted([uploadsListed, withParts, gone, withoutParts, removed]);
  await endpoint.store.abortStrays("d/k", BEGAN_MS, signal, BEGAN_MS + 1_800_000);
  assert.deepEqual(endpoint.asked, [
    "GET /bkt/?encoding-type=url&prefix=d%2Fk&uploads=",
    "GET /bkt/d/k?uploadId=busy",
    "GET /bkt/d/k?uploadId=ended",
    "GET /bkt/d/k?uploadId=stray",
    "DELETE /bkt/d/k?uploadId=stray",
  ]);
});

const later: Answer = (response) => {
  const upload = uploadOf("k", "later", "2026-11-16T12:00:00.000Z");
  response.end(`<ListMultipartUploadsResult>${upload}</ListMultipartUploadsResult>`);
};
// prettier-ignore
const unbounded: [why: string, more: Partial<TransportOptions>, untilMs: number | undefined][] = [
  ["it is not known when the request was given up",      {},                         undefined],
  ["a request without a signature may be executed late", { credentials: undefined }, BEGAN_MS],
];
for (const [why, more, untilMs] of unbounded) {
  test(`strays: an upload that began later counts, too, when ${why}`, async () => {
    using endpoint = await scripted([later, withoutParts, removed], more);
    await endpoint.store.abortStrays("k", BEGAN_MS, signal, untilMs);
    assert.equal(endpoint.asked.at(-1), "DELETE /bkt/k?uploadId=later");
  });
}

const begun: Answer = (response) => {
  const id = "<UploadId>second</UploadId>";
  response.end(`<InitiateMultipartUploadResult>${id}</InitiateMultipartUploadResult>`);
};
const listed: Answer = (response) => {
  const stray = uploadOf("k", "first", new Date().toISOString());
  response.end(`<ListMultipartUploadsResult>${stray}</ListMultipartUploadsResult>`);
};

test("an upload whose beginning was not answered is removed before another one begins", async () => {
  const script = [lost, listed, withoutParts, removed, begun];
  using endpoint = await scripted([...script, ...script]); // the second time on a kept connection
  for (const at of [3, 8]) {
    assert.equal(await endpoint.store.createUpload("k", NONCE, signal), "second");
    assert.equal(endpoint.asked[at], "DELETE /bkt/k?uploadId=first");
  }
});

test("credentials that may not look for lost uploads can begin another one", async () => {
  const overload = fails(503, "SlowDown");
  const denied = fails(403, "AccessDenied");
  using endpoint = await scripted([overload, denied, begun, overload, listed, denied, begun]);
  assert.equal(await endpoint.store.createUpload("k", NONCE, signal), "second", "no listing");
  assert.equal(await endpoint.store.createUpload("k", NONCE, signal), "second", "no parts");
});

const ours: Answer = (response) =>
  response.writeHead(200, { etag: '"o"', "x-amz-meta-s3csi-upload": NONCE }).end();
const stored: Answer = (response) => response.writeHead(200, { etag: '"e"' }).end();

test("an object is our own by its mark alone", async () => {
  using endpoint = await scripted([ours, foreign, fails(404, "NoSuchKey"), stored]);
  const find = () => endpoint.store.findOwn("k", NONCE, signal);
  assert.equal(await find(), '"o"');
  assert.equal(await find(), undefined);
  assert.equal(await find(), undefined);
  assert.equal(await find(), undefined, "without a mark");
});

// prettier-ignore
const puts: [what: string, script: Answer[], etag: string, asked: string[]][] = [
  ["done",            [lost, ours],              '"o"', ["PUT", "HEAD"]],
  ["not done",        [lost, foreign, stored],   '"e"', ["PUT", "HEAD", "PUT"]],
];
for (const [what, script, etag, asked] of puts) {
  test(`a PUT whose answer was lost is settled by its mark: ${what}`, async () => {
    using endpoint = await scripted(script);
    assert.deepEqual(await endpoint.store.put("k", BODY, NONCE, signal), { etag });
    assert.deepEqual(
      endpoint.asked.map((line) => line.split(" ")[0]),
      asked,
    );
  });
}

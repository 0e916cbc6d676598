import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import * as fs from "node:fs/promises";
import { constants } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { keyOf } from "../../tools/stack/relay.ts";
import type { RelayedAnswer } from "../../tools/stack/relay.ts";
import { mountBucket } from "./engine-process.ts";
import { RewritingProxy } from "./rewriting-proxy.ts";
import { TestBucket } from "./test-bucket.ts";

const OBJECT_BYTES = 24 << 20;
const PAGE_BYTES = 4096;
const [OLD, NEW] = [Buffer.alloc(OBJECT_BYTES, "old "), Buffer.alloc(OBJECT_BYTES, "NEW ")];
/** The default would wait longer for an endpoint whose answers are wrong. */
const FEW_ATTEMPTS = { AWS_MAX_ATTEMPTS: "3" };

/** Node has no name for ESTALE. */
function fails(expected: "EIO" | "ESTALE") {
  const errno = -constants.errno[expected];
  return (error: unknown) => error instanceof Error && "errno" in error && error.errno === errno;
}
const isStale = fails("ESTALE");

function withoutEtag(answer: RelayedAnswer): RelayedAnswer {
  const { etag: _etag, ...headers } = answer.headers;
  return { ...answer, headers };
}

async function pageAt(file: fs.FileHandle, offsetBytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(
    Buffer.alloc(PAGE_BYTES),
    0,
    PAGE_BYTES,
    offsetBytes,
  );
  return buffer.subarray(0, bytesRead);
}

describe("an open file is one version of its object, whatever the endpoint honours", () => {
  let bucket: TestBucket;
  let proxy: RewritingProxy;
  before(async () => {
    bucket = await TestBucket.start();
    proxy = await RewritingProxy.start(bucket.access.endpoint);
  });
  after(async () => {
    await proxy[Symbol.asyncDispose]();
    await bucket[Symbol.asyncDispose]();
  });

  /** The answer of a server that ignores If-Match: the object as it is now. */
  const ignoreIfMatch = async (range = "", key: string): Promise<RelayedAnswer> => {
    const object = await bucket.get(key);
    const [, from, last] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
    const etag = `"${createHash("md5").update(object).digest("hex")}"`;
    const headers = { etag, "content-range": `bytes ${from}-${last}/${object.length}` };
    return { status: 206, headers, body: object.subarray(Number(from), Number(last) + 1) };
  };

  async function mounted() {
    const mount = await mountBucket(bucket, [], { AWS_ENDPOINT_URL: proxy.url, ...FEW_ATTEMPTS });
    const at = (name: string) => join(mount.dir, name);
    return { at, [Symbol.asyncDispose]: () => mount[Symbol.asyncDispose]() };
  }

  const rewriteGets = (change: (answer: RelayedAnswer) => RelayedAnswer) => {
    proxy.rewrite = (request, answer) =>
      request.method === "GET" && keyOf(request) !== "" ? change(answer) : answer;
  };

  const MIB = 1 << 20;
  // prettier-ignore
  const orders: [name: string, firstAt: number, offsets: number[], isAllUnread: boolean][] = [
    ["at random", 12 * MIB, [3, 20, 7, 17].map((at) => at * MIB), true],
    ["in order", 0, Array.from({ length: 24 }, (_, n) => n * MIB), false],
  ];
  for (const [name, firstAt, offsets, isAllUnread] of orders) {
    test(`If-Match is ignored: a reader ${name} gets ESTALE, never a mixture`, async () => {
      await bucket.put("object", OLD);
      proxy.rewrite = (request, answer) =>
        answer.status === 412 ? ignoreIfMatch(request.headers.range, keyOf(request)) : answer;
      await using mount = await mounted();
      await using file = await fs.open(mount.at("object"));
      assert((await pageAt(file, firstAt)).equals(OLD.subarray(0, PAGE_BYTES)));
      await bucket.put("object", NEW);
      for (const at of offsets) {
        const page = await pageAt(file, at).catch((error: unknown) => error);
        if (isStale(page)) continue;
        assert(!isAllUnread, "nothing of it was fetched before");
        assert(page instanceof Buffer && page.equals(OLD.subarray(0, PAGE_BYTES)), `${at}`);
      }
      assert((await fs.readFile(mount.at("object"))).equals(NEW), "a next open is the new version");
    });
  }

  // prettier-ignore
  const broken: [what: string, errno: "EIO" | "ESTALE", change: (answer: RelayedAnswer) => RelayedAnswer][] = [
    ["no ETag", "EIO", withoutEtag],
    ["the whole object", "EIO", (answer) => ({ ...answer, status: 200, body: OLD })],
    ["another Content-Range", "EIO", (answer) => {
      return { ...answer, headers: { ...answer.headers, "content-range": "bytes 0-4095/25165824" } };
    }],
    ["another size", "ESTALE", (answer) => {
      const range = answer.headers["content-range"]?.replace(/\d+$/, "9");
      return { ...answer, headers: { ...answer.headers, "content-range": range ?? "" } };
    }],
  ];
  for (const [what, errno, change] of broken) {
    test(`${what} in the answer to a GET is ${errno}`, async () => {
      await bucket.put("object", OLD);
      proxy.rewrite = (_, answer) => answer;
      await using mount = await mounted();
      await using file = await fs.open(mount.at("object"));
      rewriteGets(change);
      await assert.rejects(pageAt(file, 8 << 20), fails(errno));
      rewriteGets((answer) => answer);
      assert((await pageAt(file, 8 << 20)).equals(OLD.subarray(0, PAGE_BYTES)), "and right later");
    });
  }

  test("an object without an ETag is EIO, and its neighbours are served", async () => {
    await bucket.put("dir/bare", "x");
    await bucket.put("dir/right", "y");
    proxy.rewrite = (request, answer) => {
      if (keyOf(request) === "dir/bare") return withoutEtag(answer);
      const text = answer.body.toString().replaceAll(/<Contents>.*?<\/Contents>/g, (entry) => {
        return entry.includes("bare") ? entry.replace(/<ETag>.*?<\/ETag>/, "") : entry;
      });
      return { ...answer, body: request.method === "GET" ? Buffer.from(text) : answer.body };
    };
    await using mount = await mounted();
    assert.deepEqual(await fs.readdir(mount.at("dir")), ["bare", "right"]);
    await assert.rejects(fs.stat(mount.at("dir/bare")), fails("EIO"));
    await assert.rejects(fs.readFile(mount.at("dir/bare")), fails("EIO"));
    assert.equal(await fs.readFile(mount.at("dir/right"), "utf8"), "y");
    await fs.access(mount.at("dir"));
  });
});

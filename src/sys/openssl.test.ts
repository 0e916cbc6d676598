import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { test } from "node:test";
import * as fc from "fast-check";
import { hmacSha256, md5, md5InThread, randomBytes, sha256 } from "./openssl.ts";

const text = fc.string({ unit: "binary", maxLength: 300 });

test("digests are those of node:crypto", () => {
  fc.assert(
    fc.property(text, fc.uint8Array({ minLength: 1, maxLength: 300 }), (data, key) => {
      assert.equal(sha256(data).toString("hex"), createHash("sha256").update(data).digest("hex"));
      assert.deepEqual(md5(key), createHash("md5").update(key).digest());
      assert.deepEqual(sha256(key), createHash("sha256").update(key).digest());
      assert.deepEqual(hmacSha256(key, data), createHmac("sha256", key).update(data).digest());
      const word = `k${data}`;
      assert.deepEqual(hmacSha256(word, ""), createHmac("sha256", word).update("").digest());
    }),
  );
});

test("an MD5 by a thread is that of node:crypto, also of many bodies at once", async () => {
  const bodies = Array.from({ length: 100 }, (_, n) => Buffer.alloc(n * 1000, n));
  const sums = await Promise.all(bodies.map((body) => md5InThread(body)));
  for (const [n, body] of bodies.entries()) {
    assert.deepEqual(sums[n], createHash("md5").update(body).digest(), `${body.length} bytes`);
  }
});

test("digests keep their memory to themselves", () => {
  const first = sha256("a");
  const copy = Buffer.from(first);
  sha256("b");
  assert.deepEqual(first, copy);
});

test("random bytes are as many as asked for, and not the same again", () => {
  const made = Array.from({ length: 100 }, () => randomBytes(16).toString("hex"));
  assert.equal(new Set(made).size, 100);
  assert(made.every((hex) => hex.length === 32));
});

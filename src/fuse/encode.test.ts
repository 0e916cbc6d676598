import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeStatfs } from "./encode.ts";

const INT64_MAX = 2n ** 63n - 1n;

test("statfs: sizes in bytes fit into a signed 64-bit number and are shown as 8.0E", () => {
  const bytes = encodeStatfs();
  const [bsize, frsize] = [bytes.readUInt32LE(40), bytes.readUInt32LE(48)];
  assert.equal(bsize, frsize);
  for (const at of [0, 8, 16]) {
    const blocks = bytes.readBigInt64LE(at);
    assert(blocks > 0n && blocks * BigInt(frsize) <= INT64_MAX, `${blocks} blocks of ${frsize}`);
    assert(blocks * BigInt(frsize) > INT64_MAX - 2n ** 53n);
  }
  for (const at of [24, 32]) assert(bytes.readBigInt64LE(at) > 0n, "files");
});

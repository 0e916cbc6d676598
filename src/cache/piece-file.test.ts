import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { CHUNK_BYTES, HEADER_BYTES, identify, sealPiece, verifyPiece } from "./piece-file.ts";

const OBJECT = identify("http://s3:80/bucket", "a/key with ünï", '"etag"');
const SPAN = { offsetBytes: 3 << 20, sizeBytes: 2 * CHUNK_BYTES + 100 };

function sealed(): Buffer {
  const file = Buffer.alloc(HEADER_BYTES + SPAN.sizeBytes, "some content ");
  assert(sealPiece(file, OBJECT, SPAN));
  return file;
}

function verifies(file: Buffer, object = OBJECT, span = SPAN, chunksFromBytes = 0): boolean {
  const data = file.subarray(HEADER_BYTES + chunksFromBytes);
  return verifyPiece(file.subarray(0, HEADER_BYTES), data, { object, span, chunksFromBytes });
}

test("a piece is right as it was written, as a whole and from any chunk on", () => {
  const file = sealed();
  for (const from of [0, CHUNK_BYTES, 2 * CHUNK_BYTES]) {
    assert(verifies(file, OBJECT, SPAN, from));
  }
});

test("a changed bit anywhere, in header or data, is found", () => {
  const file = sealed();
  const property = fc.property(fc.nat(file.length - 1), fc.nat(7), (at, bit) => {
    file.writeUInt8(file.readUInt8(at) ^ (1 << bit), at);
    const found = !verifies(file);
    file.writeUInt8(file.readUInt8(at) ^ (1 << bit), at);
    return found;
  });
  fc.assert(property, { numRuns: 500 });
  assert(verifies(file));
});

test("a piece of another object, version, bucket or place is a foreign one", () => {
  const file = sealed();
  const { store, key, etag } = OBJECT;
  assert(!verifies(file, identify(store, key, '"new"')));
  assert(!verifies(file, identify(store, "other", etag)));
  assert(!verifies(file, identify("http://s3:80/other", key, etag)));
  assert(!verifies(file, OBJECT, { ...SPAN, offsetBytes: 0 }));
});

test("names that do not fit into the header are not kept", () => {
  const file = Buffer.alloc(HEADER_BYTES + SPAN.sizeBytes);
  assert(!sealPiece(file, identify("s", "k", "e".repeat(5000)), SPAN));
  assert(sealPiece(file, identify("s", "k".repeat(1024), '"e"'), SPAN));
});

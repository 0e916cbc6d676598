import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { PartSizes } from "./part-sizes.ts";

const MIB = 1 << 20;
const GIB = 1024 * MIB;

for (const [partMib, guaranteedGib] of [
  [5, 48.8],
  [8, 75.1],
  [128, 1129.8],
] as const) {
  test(`${guaranteedGib} GiB always fit into a file with parts of ${partMib} MiB`, () => {
    const sizes = new PartSizes(partMib * MIB);
    assert.equal(Math.floor((sizes.guaranteedBytes / GIB) * 10) / 10, guaranteedGib);
    let bytes = 0;
    for (let part = 1; part <= sizes.countMax; part++) {
      const earlyBytes = sizes.earlyBytes(part, bytes);
      if (part <= 1000) assert.equal(earlyBytes, 5 * MIB, "memory that is short is returned soon");
      bytes += earlyBytes;
    }
    assert.equal(bytes, sizes.guaranteedBytes);
  });
}

test("whichever parts are sent early, the guaranteed size still fits", () => {
  const anyPart = fc.integer({ min: 5 * MIB, max: 64 * MIB });
  const property = fc.property(anyPart, fc.array(fc.nat({ max: 100 })), (fullBytes, percents) => {
    const limits = { minBytes: 5 * MIB, countMax: 20, writeBytesMax: MIB };
    const sizes = new PartSizes(fullBytes, limits);
    let bytes = 0;
    for (let part = 1; part <= limits.countMax; part++) {
      const earlyBytes = sizes.earlyBytes(part, bytes);
      assert(earlyBytes >= limits.minBytes, "S3 accepts the part");
      assert(sizes.sendableBytes(part, bytes) <= fullBytes);
      const share = (percents[part] ?? 0) / 100;
      bytes += Math.floor(earlyBytes + (fullBytes - earlyBytes) * share);
      assert(bytes + sizes.roomBytes(part) >= sizes.guaranteedBytes);
    }
  });
  fc.assert(property);
});

test("an engine with larger parts than the one before it sends no more small ones", () => {
  const sizes = new PartSizes(64 * MIB);
  assert.equal(sizes.earlyBytes(5001, 5000 * 6 * MIB), 64 * MIB);
});

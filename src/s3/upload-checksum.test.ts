import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { crc32c } from "./crc32c.ts";
import { CHECKSUM_KINDS } from "./upload-checksum.ts";

/** Bit by bit, as the definition says. */
function slowCrc32c(bytes: Uint8Array): number {
  let sum = -1;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ ((sum & 1) === 0 ? 0 : 0x82f63b78);
  }
  return ~sum >>> 0;
}

test("the check values of the catalogues, in base64", () => {
  const check = Buffer.from("123456789");
  assert.equal(crc32c(check), 0xe3069283);
  assert.equal(CHECKSUM_KINDS.crc32c.of(check), Buffer.from("e3069283", "hex").toString("base64"));
  assert.equal(CHECKSUM_KINDS.crc32.of(check), Buffer.from("cbf43926", "hex").toString("base64"));
});

test("eight bytes a step gives the same as one bit a step, wherever the bytes lie", () => {
  const bytes = fc.uint8Array({ maxLength: 100 });
  const property = fc.property(bytes, fc.nat({ max: 9 }), (all, from) => {
    const part = all.subarray(from);
    assert.equal(crc32c(part), slowCrc32c(part));
  });
  fc.assert(property);
});

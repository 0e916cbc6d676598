import assert from "node:assert/strict";
import { test } from "node:test";
import { checksumOf, CHECKSUM_KINDS } from "./upload-checksum.ts";

test("the check values of the catalogues, in base64", async () => {
  const check = Buffer.from("123456789");
  const { crc32, crc32c } = CHECKSUM_KINDS;
  const sum = { crc32c: "e3069283", crc32: "cbf43926" };
  assert.equal(await checksumOf(crc32c, check), Buffer.from(sum.crc32c, "hex").toString("base64"));
  assert.equal(await checksumOf(crc32, check), Buffer.from(sum.crc32, "hex").toString("base64"));
});

test("a sum of pieces is the sum of the whole", async () => {
  const whole = Buffer.from("in any pieces, also empty ones");
  for (const kind of Object.values(CHECKSUM_KINDS)) {
    const sum = await kind.start();
    for (const [from, to] of [
      [0, 3],
      [3, 3],
      [3, 20],
      [20, whole.length],
    ] as const) {
      sum.add(whole.subarray(from, to));
    }
    assert.equal(sum.value, await checksumOf(kind, whole));
  }
});

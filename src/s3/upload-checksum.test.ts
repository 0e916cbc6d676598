import assert from "node:assert/strict";
import { test } from "node:test";
import { CHECKSUM_KINDS } from "./upload-checksum.ts";

test("the check values of the catalogues, in base64", async () => {
  const check = Buffer.from("123456789");
  const { crc32, crc32c } = CHECKSUM_KINDS;
  assert.equal(await crc32c.of(check), Buffer.from("e3069283", "hex").toString("base64"));
  assert.equal(await crc32.of(check), Buffer.from("cbf43926", "hex").toString("base64"));
});

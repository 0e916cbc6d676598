import assert from "node:assert/strict";
import { test } from "node:test";
import { readUploads } from "./upload-list.ts";
import { escapeXml } from "./xml.ts";

const ENCODING = "<EncodingType>url</EncodingType>";

// prettier-ignore
const listings: [says: string, listed: string, key: string, isOf: boolean][] = [
  [ENCODING, "d%2Fa%20b", "d/a b",     true],
  [ENCODING, "d%2Fa+b",   "d/a b",     true],
  [ENCODING, "d%2Fa%20b", "d%2Fa%20b", false],
  ["",       "d/a b",     "d/a b",     true],  // not encoded
  ["",       "d%2Fa%20b", "d/a b",     true],  // encoded, although it does not say so
  ["",       "a%2Bb",     "a+b",       true],
  ["",       "a+b",       "a+b",       true],
  ["",       "100%",      "100%",      true],
  ["",       "100%25",    "100%",      true],
  ["",       "d%2Fa%20b", "d/a",       false],
  ["",       "é&<",       "é&<",       true],
];
for (const [says, listed, key, isOf] of listings) {
  test(`an upload listed as ${listed} ${isOf ? "is" : "is not"} one of ${key}: ${says}`, () => {
    const element = `<Upload><Key>${escapeXml(listed)}</Key><UploadId>u</UploadId></Upload>`;
    const document = `<ListMultipartUploadsResult>${says}${element}</ListMultipartUploadsResult>`;
    assert.equal(readUploads(document)[0]?.isOf(key), isOf);
  });
}

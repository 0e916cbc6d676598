import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { readListPage } from "./list-page.ts";
import { escapeXml, readXml } from "./xml.ts";

test("a document of S3 becomes its elements", () => {
  const root = readXml(
    '<?xml version="1.0"?>\n<!-- c --><a xmlns="u"><b>1 &lt;2&#x41;&#66;</b><x:b/><c><![CDATA[<&>]]></c></a>\n',
  );
  assert.equal(root.name, "a");
  assert.deepEqual(
    root.all("b").map((element) => element.text),
    ["1 <2AB", ""],
  );
  assert.equal(root.textOf("c"), "<&>");
  assert.equal(root.textOf("none"), undefined);
});

test("any text survives escaping and reading", () => {
  const text = fc.string({ unit: "grapheme" });
  fc.assert(
    fc.property(text, (value) => assert.equal(readXml(`<a>${escapeXml(value)}</a>`).text, value)),
  );
});

function readsOrFails(parts: readonly string[]): void {
  try {
    readXml(parts.join(""));
  } catch (error) {
    assert(error instanceof Failure);
  }
}

test("whatever is not a document is a Failure, never another error", () => {
  const soup = fc.array(
    fc.constantFrom(
      "<",
      ">",
      "/",
      "a",
      "!--",
      "-->",
      "?",
      "&#x;",
      "&amp;",
      "<a>",
      "</a>",
      "]]>",
      "<![CDATA[",
    ),
  );
  fc.assert(fc.property(soup, readsOrFails), { numRuns: 1000 });
});

const listing = (
  encoding: string,
  key: string,
) => `<ListBucketResult>${encoding}<IsTruncated>true</IsTruncated>
  <NextContinuationToken>t</NextContinuationToken>
  <Contents><Key>${key}</Key><ETag>&quot;e&quot;</ETag><Size>12</Size><LastModified>2026-01-02T03:04:05.000Z</LastModified><StorageClass>GLACIER</StorageClass></Contents>
  <CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>`;

test("listings are read with and without url encoding, by what the answer says", () => {
  const encoded = readListPage(listing("<EncodingType>url</EncodingType>", "a%2Bb+c%0A"));
  const plain = readListPage(listing("", "a%2Bb+c"));
  assert.equal(encoded.objects[0]?.key, "a+b c\n");
  assert.equal(plain.objects[0]?.key, "a%2Bb+c");
  assert.deepEqual(plain.objects[0], {
    key: "a%2Bb+c",
    etag: '"e"',
    sizeBytes: 12,
    mtimeMs: Date.UTC(2026, 0, 2, 3, 4, 5),
    archived: true,
  });
  assert.deepEqual([plain.prefixes, plain.nextToken], [["p/"], "t"]);
});

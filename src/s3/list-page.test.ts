import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { readListPage } from "./list-page.ts";
import { escapeXml } from "./xml.ts";

/** With a comment in it nothing is cut out: it is read as a tree, which is the slow truth. */
const AS_TREE = "<!-- -->";

const space = fc.constantFrom("", " ", "\n");
const text = fc.string({
  unit: fc.constantFrom("a", "/", "&", "<", ">", '"', "é", "%41", "+"),
  maxLength: 8,
});
const stamp = fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
const archive = fc.constantFrom("STANDARD", "GLACIER", "DEEP_ARCHIVE");
const extra = fc.constantFrom(
  "",
  "<ChecksumAlgorithm>CRC32</ChecksumAlgorithm>",
  "<Owner><ID>me</ID><DisplayName>Contents</DisplayName></Owner>",
  "<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress></RestoreStatus>",
  "<Owner/>",
  '<Owner type="x">me</Owner>',
  "<s3:Owner>me</s3:Owner>",
);
const tag = fc.constantFrom("Contents", "Contents", "Contents", "s3:Contents", "Contents ");

const last = fc.boolean();
const contents = fc
  .record({ tag, key: text, etag: text, size: fc.nat(), stamp, archive, extra, space, last })
  .map((one) => {
    const key = `${one.space}<Key>${escapeXml(one.key)}</Key>${one.space}`;
    const rest =
      `<LastModified>${one.stamp}</LastModified><ETag>${escapeXml(one.etag)}</ETag>` +
      `<Size>${one.size}</Size><StorageClass>${one.archive}</StorageClass>${one.extra}`;
    return `<${one.tag}>${one.last ? rest + key : key + rest}</${one.tag.trim()}>`;
  });
const prefixes = text.map(
  (prefix) => `<CommonPrefixes><Prefix>${escapeXml(prefix)}</Prefix></CommonPrefixes>`,
);
const rows = fc.array(fc.oneof({ weight: 4, arbitrary: contents }, prefixes), { maxLength: 12 });
const heads = fc.constantFrom(
  "<IsTruncated>false</IsTruncated>",
  "<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b</NextContinuationToken>",
  "<EncodingType>url</EncodingType>",
);

const listing = (head: string, body: string) =>
  `<?xml version="1.0"?><ListBucketResult xmlns="s3">${head}${body}</ListBucketResult>`;

const plain = ({ objects, prefixes: found, nextToken }: ReturnType<typeof readListPage>) => ({
  objects: objects.map((object) => ({ ...object })),
  prefixes: [...found],
  nextToken,
});

test("a page that is cut open says what its tree says", () => {
  fc.assert(
    fc.property(heads, rows, (head, row) => {
      const document = listing(head, row.join(""));
      const tree = listing(head + AS_TREE, row.join(""));
      assert.deepEqual(plain(readListPage(document)), plain(readListPage(tree)));
    }),
    { numRuns: 500 },
  );
});

test("a page that is cut off anywhere is a failure, or was complete", () => {
  const row = "<Contents><Key>k</Key><Size>1</Size></Contents>";
  const document = listing("<IsTruncated>false</IsTruncated>", row.repeat(2));
  for (let length = 0; length < document.length; length++) {
    const read = () => readListPage(document.slice(0, length)).objects;
    assert.throws(read, (error) => error instanceof Failure && error.kind === "remote");
  }
  assert.equal(readListPage(document).objects.length, 2);
});

test("what is wrong inside an object is a failure when the objects are read", () => {
  for (const block of ["<Key>k</Kex>", "<Key>k", "<Key><Size></Key></Size>", "<"]) {
    const page = () => readListPage(listing("", `<Contents>${block}</Contents>`)).objects;
    assert.throws(page, Failure, block);
  }
});

test("a modification time has whole seconds, as that of a HEAD", () => {
  const time = "<LastModified>2026-11-18T14:00:01.789Z</LastModified>";
  const object = `<Contents><Key>k</Key>${time}<Size>1</Size>`;
  for (const comment of ["", AS_TREE]) {
    const { objects } = readListPage(listing("", `${comment}${object}</Contents>`));
    assert.equal(objects[0]?.mtimeMs, Date.parse("2026-11-18T14:00:01Z"));
  }
});

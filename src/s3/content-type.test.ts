import assert from "node:assert/strict";
import { test } from "node:test";
import { contentTypeOf } from "./content-type.ts";

// prettier-ignore
const cases: [key: string, type: string | undefined][] = [
  ["a/b/photo.JPEG",   "image/jpeg"],
  ["page.html",        "text/html"],
  ["data.tar.gz",      "application/gzip"],
  ["video.mp4",        "video/mp4"],
  ["no-extension",     undefined],
  ["dir.html/file",    undefined],
  ["a/.html",          undefined],
  [".css",             undefined],
  ["x.constructor",    undefined],
  ["trailing.",        undefined],
];
for (const [key, type] of cases) {
  test(`${key}: ${type ?? "left to the server"}`, () => assert.equal(contentTypeOf(key), type));
}

import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { locate } from "./s3-location.ts";

// prettier-ignore
const cases: [bucket: string, endpointUrl: string | undefined, force: boolean, host: string, port: number, hostHeader: string, basePath: string][] = [
  ["bkt",   undefined,               false, "bkt.s3.eu.amazonaws.com", 443,  "bkt.s3.eu.amazonaws.com", ""],
  ["bkt",   undefined,               true,  "s3.eu.amazonaws.com",     443,  "s3.eu.amazonaws.com",     "/bkt"],
  ["b.k.t", undefined,               false, "s3.eu.amazonaws.com",     443,  "s3.eu.amazonaws.com",     "/b.k.t"],
  ["bkt",   "http://h:9000",         false, "h",                       9000, "h:9000",                  "/bkt"],
  ["bkt",   "https://h/base/",       true,  "h",                       443,  "h",                       "/base/bkt"],
  ["bkt",   "http://[::1]:9",        false, "::1",                     9,    "[::1]:9",                 "/bkt"],
];
for (const [bucket, endpointUrl, forcePathStyle, host, port, hostHeader, basePath] of cases) {
  test(`${bucket} at ${endpointUrl ?? "AWS"}${forcePathStyle ? ", path style" : ""}`, () => {
    const found = locate({ bucket, region: "eu", endpointUrl, forcePathStyle });
    assert.deepEqual(
      [found.host, found.port, found.hostHeader, found.basePath],
      [host, port, hostHeader, basePath],
    );
  });
}

test("AWS by IPv6 and by its edge network", () => {
  const options = { bucket: "bkt", region: "eu", endpointUrl: undefined, forcePathStyle: false };
  const hostOf = (more: object) => locate({ ...options, ...more }).host;
  assert.equal(hostOf({ dualStack: true }), "bkt.s3.dualstack.eu.amazonaws.com");
  assert.equal(hostOf({ accelerated: true }), "bkt.s3-accelerate.amazonaws.com");
  const both = { dualStack: true, accelerated: true };
  assert.equal(hostOf(both), "bkt.s3-accelerate.dualstack.amazonaws.com");
});

test("an endpoint that is no URL is named", () => {
  const options = { bucket: "b", region: "r", endpointUrl: "ftp://x", forcePathStyle: false };
  assert.throws(
    () => locate(options),
    (error) => error instanceof Failure && error.message.includes("ftp://x"),
  );
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { Secret } from "../base/secret.ts";
import { canonicalQuery, EMPTY_PAYLOAD_SHA256, encodeKey, Signer } from "./sign.ts";

// The examples of the public documentation of Signature Version 4 for S3.
const signer = new Signer(
  {
    accessKeyId: "AKIAIOSFODNN7EXAMPLE",
    secretAccessKey: new Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    sessionToken: undefined,
  },
  "us-east-1",
);
const nowMs = Date.parse("2013-05-24T00:00:00Z");
const host = "examplebucket.s3.amazonaws.com";

// prettier-ignore
const cases: [name: string, method: string, path: string, query: [string, string][], headers: Record<string, string>, signature: string][] = [
  ["a ranged GET", "GET", "/test.txt", [], { host, range: "bytes=0-9" }, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"],
  ["a listing",    "GET", "/", [["max-keys", "2"], ["prefix", "J"]], { host }, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"],
  ["a sub-resource", "GET", "/", [["lifecycle", ""]], { host }, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"],
];

for (const [name, method, path, query, headers, signature] of cases) {
  test(`${name} is signed as documented`, () => {
    const payloadSha256 = EMPTY_PAYLOAD_SHA256;
    const request = { method, path, query: canonicalQuery(query), headers, payloadSha256 };
    const signed = signer.sign(request, nowMs);
    assert.equal(signed["authorization"]?.split("Signature=")[1], signature);
  });
}

test("keys keep their slashes and lose everything else that is special", () => {
  assert.equal(encodeKey("a b/ä+~*'()!/%"), "a%20b/%C3%A4%2B~%2A%27%28%29%21/%25");
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { containersIn, render } from "./render.ts";

const ENDPOINT = "s3.endpointUrl";
const WHAT_TO_DO = "set it to the URL of your S3 server, e\\.g\\. --set s3\\.endpointUrl=https://";

// prettier-ignore
const wrong: [name: string, url: string, says: string][] = [
  ["none",                  "",                             `s3\\.endpointUrl is empty: ${WHAT_TO_DO}`],
  ["the example",           "http://s3.example.com:8000",   `is http://s3\\.example\\.com:8000, which is only an example: ${WHAT_TO_DO}`],
  ["the example with a /",  "http://s3.example.com:8000/",  "which is only an example"],
  ["of the install page",   "https://s3.example.com",       "which is only an example"],
  ["of another page",       "https://example.org",          "which is only an example"],
  ["a host without scheme", "s3.my-company.net",            "endpointUrl.*does not match pattern"],
];
for (const [name, url, says] of wrong) {
  test(`the endpoint ${name} is refused`, async () => {
    await assert.rejects(render({ [ENDPOINT]: url }), new RegExp(says, "s"));
  });
}

test("the endpoint is that of the values", async () => {
  const [container] = containersIn(await render({ [ENDPOINT]: "https://s3.not-example.com" }));
  const variable = container?.env?.find(({ name }) => name === "AWS_ENDPOINT_URL");
  assert.equal(variable?.value, "https://s3.not-example.com");
});

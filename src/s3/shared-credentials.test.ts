import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Failure } from "../base/failure.ts";
import { SharedCredentials } from "./shared-credentials.ts";

const dir = mkdtempSync(join(tmpdir(), "s3csi-credentials-"));
after(() => rmSync(dir, { recursive: true }));
const path = (name: string, text: string) => {
  writeFileSync(join(dir, name), text);
  return join(dir, name);
};
const keys = (id: string) => `aws_access_key_id = ${id}\naws_secret_access_key=secret-${id}\n`;

test("a profile is found in either file, with its token", () => {
  const credentials = path(
    "credentials",
    `[default]\n${keys("A")}# a comment\n[dev]\n${keys("B")}aws_session_token = T=1\n`,
  );
  const config = path("config", `[profile other]\nregion = x\n${keys("C")}`);
  const paths = [credentials, config];
  const of = (profile: string) => new SharedCredentials(paths, profile).current();
  assert.equal(of("default").accessKeyId, "A");
  assert.equal(of("dev").sessionToken?.reveal(), "T=1");
  assert.equal(of("other").secretAccessKey.reveal(), "secret-C");
  assert.throws(
    () => of("nobody"),
    (error) =>
      error instanceof Failure &&
      /profile nobody: no access key in .*credentials/.test(error.message),
  );
});

test("keys are read again when they are refused, and kept while the file is no use", () => {
  const file = path("rotating", `[default]\n${keys("A")}`);
  const source = new SharedCredentials([file], "default");
  const first = source.current();
  assert.equal(source.renew(first), false);
  assert.equal(source.current(), first);
  writeFileSync(file, "[default]\naws_access_key");
  assert.equal(source.renew(first), false);
  writeFileSync(file, `[default]\n${keys("B")}`);
  assert.equal(source.renew(first), true);
  assert.equal(source.current().accessKeyId, "B");
  assert.equal(source.renew(first), true, "a request that was under way with the former keys");
});

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";
import { driverKeys, keysOfSecret } from "./keys.ts";

const PAIR = { access_key_id: "ID", secret_access_key: "KEY" };
const ENV = { AWS_ACCESS_KEY_ID: "E", AWS_SECRET_ACCESS_KEY: "F" };

test("a Secret has a pair, and maybe a token and a region", () => {
  const { credentials, region } = keysOfSecret({ ...PAIR, session_token: "T\n", region: "r-1" });
  assert.equal(credentials.accessKeyId, "ID");
  assert.equal(credentials.secretAccessKey.reveal(), "KEY");
  assert.equal(credentials.sessionToken?.reveal(), "T");
  assert.equal(region, "r-1");
  assert(!inspect(credentials).includes("KEY"));
});

// prettier-ignore
const halves: [secret: Record<string, string>, missing: RegExp][] = [
  [{ access_key_id: "ID" },                              /required AWS credentials: secret_access_key;/],
  [{ secret_access_key: "KEY" },                         /required AWS credentials: access_key_id;/],
  [{ access_key_id: " ", secret_access_key: "" },        /access_key_id, secret_access_key;/],
  [{ AWS_ACCESS_KEY_ID: "ID" },                          /access_key_id, secret_access_key;/],
];
for (const [secret, message] of halves) {
  test(`a Secret with ${Object.keys(secret).join()} alone is refused`, () => {
    assert.throws(() => keysOfSecret(secret), { kind: "invalid", message });
  });
}

test("the driver's keys are the mounted ones, as they are now; else the environment's", () => {
  const dir = mkdtempSync(join(tmpdir(), "s3csi-keys-"));
  try {
    assert.equal(driverKeys(dir, ENV).credentials.accessKeyId, "E");
    for (const [name, text] of Object.entries(PAIR)) writeFileSync(join(dir, name), text);
    assert.equal(driverKeys(dir, ENV).credentials.accessKeyId, "ID");
    writeFileSync(join(dir, "access_key_id"), "ROTATED\n");
    assert.equal(driverKeys(dir, {}).credentials.accessKeyId, "ROTATED");
  } finally {
    rmSync(dir, { recursive: true });
  }
  assert.throws(() => driverKeys(dir, {}), { kind: "refused", message: /s3CredentialSecret/ });
});

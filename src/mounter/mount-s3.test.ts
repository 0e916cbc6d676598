import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { MountSpec } from "../handover/messages.ts";
import { CredentialsFile } from "./credentials-file.ts";
import { mountS3Args, mountS3Environment } from "./mount-s3.ts";

let dir: string;
before(() => (dir = mkdtempSync(join(tmpdir(), "s3csi-keys-"))));
after(() => rmSync(dir, { recursive: true }));

const spec: MountSpec = {
  bucket: "photos",
  args: ["--allow-other", "--prefix=2026/"],
  env: { AWS_MAX_ATTEMPTS: "3" },
  credentials: null,
  engine: "mount-s3",
};

test("the command line is mount-s3's own", () => {
  const words = ["photos", "/dev/fd/3", "--foreground", "--allow-other", "--prefix=2026/"];
  assert.deepEqual(mountS3Args(spec), words);
  const args = ["--read-only", ...spec.args, "--auto-unmount"];
  assert.deepEqual(mountS3Args({ ...spec, args }), words, "those are of the mount");
});

test("of the pod's environment it gets the way to the network, and authorities", () => {
  const own = {
    AWS_CA_BUNDLE: "/ca.crt",
    HTTPS_PROXY: "http://proxy:1",
    NODE_EXTRA_CA_CERTS: "/ours.crt",
    NODE_OPTIONS: "--inspect",
    AWS_ACCESS_KEY_ID: "somebody's",
    LD_PRELOAD: "/evil.so",
  };
  assert.deepEqual(mountS3Environment(spec, { AWS_CONFIG_FILE: "/c" }, own), {
    AWS_MAX_ATTEMPTS: "3",
    HTTPS_PROXY: "http://proxy:1",
    AWS_CA_BUNDLE: "/ca.crt",
    AWS_CONFIG_FILE: "/c",
  });
});

test("keys are in a file that its owner alone can read, and are replaced as a whole", () => {
  const file = new CredentialsFile(dir);
  const path = file.env["AWS_SHARED_CREDENTIALS_FILE"] ?? "";
  file.write({ accessKeyId: "one", secretAccessKey: "a/+=" });
  const first = statSync(path);
  assert.equal(first.mode & 0o777, 0o600);
  const text = "[default]\naws_access_key_id = one\naws_secret_access_key = a/+=\n";
  assert.equal(readFileSync(path, "utf8"), text);
  file.write({ accessKeyId: "two", secretAccessKey: "b", sessionToken: "t" });
  assert.notEqual(statSync(path).ino, first.ino, "another file in its place");
  assert.match(readFileSync(path, "utf8"), /= two\n.*= b\naws_session_token = t\n$/);
  assert.equal(file.env["AWS_EC2_METADATA_DISABLED"], "true", "never the machine's own keys");
  file.write(null);
  assert.deepEqual(readdirSync(dir), ["config"]);
});

test("a key that would be two lines is refused and not quoted; a directory that is not there", () => {
  const file = new CredentialsFile(dir);
  const secretAccessKey = "hidden\nrole_arn = x";
  assert.throws(
    () => file.write({ accessKeyId: "id", secretAccessKey }),
    /^Failure: secretAccessKey: the engine mount-s3 takes printable ASCII only$/,
  );
  const away = join(dir, "away");
  assert.throws(() => new CredentialsFile(away), { kind: "refused", message: /away.*: ENOENT$/ });
});

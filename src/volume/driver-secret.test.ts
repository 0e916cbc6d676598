import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { SecretVolume } from "../../test/node/secret-volume.ts";
import { readDriverSecret, readSecretDirectory } from "./driver-secret.ts";

const PAIR = { access_key_id: "ID", secret_access_key: "KEY" };
const ENV = { AWS_ACCESS_KEY_ID: "E", AWS_SECRET_ACCESS_KEY: "F", AWS_SESSION_TOKEN: "G" };
const OF_ENV = { access_key_id: "E", secret_access_key: "F", session_token: "G" };
const UPDATES = 400;

function directoryFor(context: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), "s3csi-secret-"));
  context.after(() => rmSync(dir, { recursive: true }));
  return dir;
}

test("the files of the directory count before the environment, and are not combined with it", (context) => {
  const volume = new SecretVolume(join(directoryFor(context), "credentials"));
  const read = () => readDriverSecret(volume.path, ENV).values;
  assert.deepEqual(read(), OF_ENV);
  volume.update(PAIR);
  assert.deepEqual(read(), PAIR);
  volume.update({ access_key_id: "ROTATED" });
  assert.deepEqual(read(), { access_key_id: "ROTATED" });
  volume.update({});
  assert.deepEqual(read(), OF_ENV);
});

test("a directory without the kubelet's links is read, too", (context) => {
  const dir = directoryFor(context);
  for (const [name, text] of Object.entries(PAIR)) writeFileSync(join(dir, name), text);
  assert.deepEqual(readSecretDirectory(dir), PAIR);
  assert.deepEqual(readSecretDirectory(join(dir, "nowhere")), {});
});

test("an unreadable file is a failure that names it", (context) => {
  const dir = directoryFor(context);
  const volume = new SecretVolume(join(dir, "credentials"));
  rmSync(join(volume.path, "..data"));
  writeFileSync(join(volume.path, "..data"), "no link");
  const message = /the driver's credentials: .*\/\.\.data: EINVAL/;
  assert.throws(() => readSecretDirectory(volume.path), { kind: "refused", message });
});

// prettier-ignore
const names: [directory: "directory" | "none", env: Record<string, string>, name: string][] = [
  ["none",      {},  "AWS_ACCESS_KEY_ID"],
  ["none",      ENV, "AWS_ACCESS_KEY_ID"],
  ["directory", ENV, "AWS_ACCESS_KEY_ID"],
  ["directory", {},  "access_key_id"],
];
for (const [directory, env, name] of names) {
  test(`with ${directory} and ${Object.keys(env).length} variables the key is ${name}`, (context) => {
    const dir = directory === "none" ? undefined : directoryFor(context);
    assert.equal(readDriverSecret(dir, env).nameOf("access_key_id"), name);
  });
}

test("credentials that are read while the kubelet updates the volume are of one version", async (context) => {
  const path = join(directoryFor(context), "credentials");
  const program = `
    import { SecretVolume } from ${JSON.stringify(import.meta.resolve("../../test/node/secret-volume.ts"))};
    const volume = new SecretVolume(${JSON.stringify(path)});
    for (let number = 1; number <= ${UPDATES}; number += 1) {
      volume.update({ access_key_id: String(number), secret_access_key: String(number) });
    }`;
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(program)}`));
  const running = new AbortController();
  const ended = once(worker, "exit").finally(() => running.abort());
  const seen = new Set<string | undefined>();
  while (!running.signal.aborted) {
    const { access_key_id, secret_access_key } = readSecretDirectory(path);
    assert.equal(secret_access_key, access_key_id);
    seen.add(access_key_id);
    await nextTurn();
  }
  assert.deepEqual(await ended, [0]);
  assert(seen.size > 3, `versions seen: ${seen.size}`);
});

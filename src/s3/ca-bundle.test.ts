import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { rootCertificates } from "node:tls";
import type { Log } from "../base/log.ts";
import { CaBundle } from "./ca-bundle.ts";
import { AwayFailure } from "./retry.ts";

const [first = "", second = ""] = rootCertificates;

function fileFor(context: { after(fn: () => void): void }): string {
  const dir = mkdtempSync(join(tmpdir(), "s3csi-ca-"));
  context.after(() => rmSync(dir, { recursive: true }));
  return join(dir, "ca-bundle.crt");
}

function logged() {
  const messages: string[] = [];
  const write = (_facts: object | string, msg = "") => void messages.push(msg);
  const log: Log = { debug: write, info: write, warn: write, error: write };
  return { log, messages };
}

test("the context is kept while the file is the same, and made anew when it has changed", (context) => {
  const path = fileFor(context);
  writeFileSync(path, first);
  const { log, messages } = logged();
  const bundle = new CaBundle({ path, setting: "--ca-bundle", isExclusive: true, log });
  const before = bundle.context();
  assert.equal(bundle.context(), before);
  writeFileSync(path, `${first}\n${second}`);
  assert.notEqual(bundle.context(), before);
  assert.deepEqual(bundle.certificates(), [`${first}\n${second}`]);
  assert.deepEqual(messages, ["CA bundle reloaded"]);
});

test("a bundle that is spoilt or removed leaves the last good certificates in force", (context) => {
  const path = fileFor(context);
  writeFileSync(path, first);
  const { log, messages } = logged();
  const bundle = new CaBundle({ path, setting: "--ca-bundle", isExclusive: true, log });
  writeFileSync(path, "spoilt");
  for (const _ of [1, 2]) assert.deepEqual(bundle.certificates(), [first]);
  rmSync(path);
  for (const _ of [1, 2]) assert.deepEqual(bundle.certificates(), [first]);
  assert.deepEqual(messages, ["failed to read CA bundle", "failed to read CA bundle"]);
  writeFileSync(path, second);
  assert.deepEqual(bundle.certificates(), [second]);
});

test("additional certificates are trusted besides Node's own, as soon as the file exists", (context) => {
  const path = fileFor(context);
  const own = first.replace("MII", "MIJ"); // not among Node's
  const options = { path, setting: "NODE_EXTRA_CA_CERTS", isExclusive: false };
  const bundle = new CaBundle(options);
  assert(bundle.certificates().includes(second));
  assert(!bundle.certificates().includes(own));
  writeFileSync(path, own);
  assert(bundle.certificates().includes(second));
  assert(bundle.certificates().includes(own));
});

const isOutage = (error: unknown) =>
  error instanceof AwayFailure && error.message.startsWith("--ca-bundle ");

test("a bundle that a resumed mount can't read is an outage until it can be read", (context) => {
  const path = fileFor(context);
  const { log, messages } = logged();
  const options = { path, setting: "--ca-bundle", isExclusive: true, isKnownToWork: true, log };
  const bundle = new CaBundle(options);
  for (const _ of [1, 2]) assert.throws(() => bundle.context(), isOutage);
  writeFileSync(path, "spoilt");
  for (const _ of [1, 2]) assert.throws(() => bundle.context(), isOutage);
  writeFileSync(path, first);
  assert.deepEqual(bundle.certificates(), [first]);
  assert.deepEqual(messages, ["failed to read CA bundle", "CA bundle reloaded"]);
});

// prettier-ignore
const wrong: [name: string, text: string | undefined, says: RegExp][] = [
  ["is missing",         undefined, /^--ca-bundle .*ca-bundle\.crt: can't be read$/],
  ["has no certificate", "x",       /^--ca-bundle .*ca-bundle\.crt: must be a PEM file with certificates$/],
];
for (const [name, text, message] of wrong) {
  test(`an exclusive bundle that ${name} is refused at the start`, (context) => {
    const path = fileFor(context);
    if (text !== undefined) writeFileSync(path, text);
    const make = () => new CaBundle({ path, setting: "--ca-bundle", isExclusive: true });
    assert.throws(make, { kind: "invalid", message });
  });
}

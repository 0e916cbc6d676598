import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { CacheDirectory } from "../cache/cache-directory.ts";
import type { ObjectReader } from "../s3/object-store.ts";
import { openBucket } from "./bucket-store.ts";
import { readMountOptions } from "./mount-options.ts";

const OBJECT = "0123456789";
const signal = AbortSignal.timeout(20_000);

/** An S3 that has one object, of which all is asked for. */
async function endpoint() {
  const server = createServer((_request, response) => {
    const range = `bytes 0-${OBJECT.length - 1}/${OBJECT.length}`;
    response.writeHead(206, { etag: '"e"', "content-range": range }).end(OBJECT);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { address: `127.0.0.1:${port}`, [Symbol.dispose]: close };
}

function temporary() {
  const path = mkdtempSync(join(tmpdir(), "s3csi-bucket-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) };
}

const ignore = () => undefined;

function open(url: string, words: readonly string[], isKnownToWork: boolean) {
  const warnings: string[] = [];
  const warn = (_facts: object | string, msg = "") => void warnings.push(msg);
  const log: Log = { debug: ignore, info: ignore, warn, error: ignore };
  const usual = ["bkt", "/mnt", "--endpoint-url", url, "--no-sign-request", "--outage-limit", "1"];
  const options = readMountOptions([...usual, ...words], {}) ?? assert.fail("no options");
  return { opening: openBucket(options, undefined, { isKnownToWork, log }), warnings };
}

async function readAll(reader: ObjectReader): Promise<string> {
  const into = Buffer.alloc(OBJECT.length);
  const pinned = { key: "k", etag: '"e"', objectBytes: OBJECT.length, offsetBytes: 0 };
  await reader.read({ ...pinned, into, onFilled: () => undefined }, signal);
  return into.toString();
}

const isOf = (kind: string, says: RegExp) => (error: unknown) =>
  error instanceof Failure && error.kind === kind && says.test(error.message);

test("a resumed mount goes on without its cache while the directory is gone; a new one does not start", async () => {
  using s3 = await endpoint();
  const words = ["--cache", "/no/such/dir"];
  const { opening, warnings } = open(`http://${s3.address}`, words, true);
  const { reader } = await opening;
  assert.equal(await readAll(reader), OBJECT);
  assert.deepEqual(warnings, ["cache not opened, reading without it"]);
  const anew = open(`http://${s3.address}`, words, false).opening;
  await assert.rejects(anew, isOf("invalid", /^--cache \/no\/such\/dir: can't be used: ENOENT/));
});

test("a resumed mount goes on without its cache while another process has it locked", async () => {
  using s3 = await endpoint();
  using dir = temporary();
  const holder = CacheDirectory.open(dir.path);
  const words = ["--cache", dir.path];
  const { reader } = await open(`http://${s3.address}`, words, true).opening;
  assert.equal(await readAll(reader), OBJECT);
  const anew = open(`http://${s3.address}`, words, false).opening;
  await assert.rejects(anew, isOf("conflict", /another mount uses it/));
  holder.close();
});

// prettier-ignore
const missing: [what: string, scheme: string, words: string[], says: RegExp][] = [
  ["the interface to bind to",    "http",  ["--bind", "gone0"],          /^--bind gone0: no /],
  ["the CA bundle",               "https", ["--ca-bundle", "/no/such"], /^--ca-bundle \/no\/such: can't be read/],
];
for (const [what, scheme, words, says] of missing) {
  test(`a resumed mount without ${what} waits for it as for S3; a new one does not start`, async () => {
    using s3 = await endpoint();
    const { reader } = await open(`${scheme}://${s3.address}`, words, true).opening;
    await assert.rejects(readAll(reader), isOf("remote", says));
    const anew = open(`${scheme}://${s3.address}`, words, false).opening;
    await assert.rejects(anew, isOf("invalid", says));
  });
}

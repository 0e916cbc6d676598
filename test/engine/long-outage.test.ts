import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { mountBucket } from "./engine-process.ts";
import { TcpGate } from "./tcp-gate.ts";
import { TestBucket } from "./test-bucket.ts";

const OUTAGE_MS = process.env["FULL"] === "1" ? 30_000 : 5_000;
const PART_BYTES = 5 << 20;
const MEMORY_MIB = 64;
/** More than may be read ahead or wait to be sent: nobody gets through without the endpoint. */
const SIZE_BYTES = 120 << 20;
const CHUNK_BYTES = 1 << 20;
/** Here both wait for each other, then the endpoint goes: parts are through, others under way. */
const OUTAGE_AT_BYTES = 12 << 20;

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** The longest that one step of the application took. */
async function longestStepMs(steps: AsyncIterable<unknown>): Promise<number> {
  let longestMs = 0;
  let beganMs = performance.now();
  for await (const _ of steps) {
    longestMs = Math.max(longestMs, performance.now() - beganMs);
    beganMs = performance.now();
  }
  return longestMs;
}

test(`the endpoint is gone for ${OUTAGE_MS / 1000} s: a pause, then the right bytes`, async () => {
  await using bucket = await TestBucket.start();
  const bytes = randomBytes(SIZE_BYTES);
  await bucket.put("read", bytes);
  await using gate = await TcpGate.start(bucket.access.endpoint);
  const args = ["--endpoint-url", gate.url, "--part-size", String(PART_BYTES)];
  await using mount = await mountBucket(bucket, [...args, "--memory-target", String(MEMORY_MIB)]);

  const hash = createHash("sha256");
  const [reader, writer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const cut = Promise.all([reader.promise, writer.promise]).then(() => gate.shut());
  const arrive = (who: PromiseWithResolvers<void>) => {
    who.resolve();
    return cut;
  };
  async function* readSteps() {
    await using file = await fs.open(join(mount.dir, "read"));
    for (let at = 0; at < SIZE_BYTES; at += CHUNK_BYTES) {
      if (at === OUTAGE_AT_BYTES) await arrive(reader);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(CHUNK_BYTES), 0);
      hash.update(buffer.subarray(0, bytesRead));
      yield bytesRead;
    }
  }
  async function* writeSteps() {
    const file = await fs.open(join(mount.dir, "written"), "w");
    for (let at = 0; at < SIZE_BYTES; at += CHUNK_BYTES) {
      if (at === OUTAGE_AT_BYTES) await arrive(writer);
      yield (await file.write(bytes.subarray(at, at + CHUNK_BYTES))).bytesWritten;
    }
    yield file.close();
  }
  async function outage(): Promise<void> {
    await cut;
    await delay(OUTAGE_MS);
    await gate.open();
  }
  const [readPauseMs, writePauseMs] = await Promise.all([
    longestStepMs(readSteps()),
    longestStepMs(writeSteps()),
    outage(),
  ]);
  assert.equal(hash.digest("hex"), sha256(bytes), "as read");
  assert.equal(sha256(await bucket.get("written")), sha256(bytes), "as written");
  assert.equal(await bucket.unfinishedUploads(), 0);
  assert(readPauseMs > OUTAGE_MS / 2, `the reader did not feel it: ${readPauseMs} ms`);
  assert(writePauseMs > OUTAGE_MS / 2, `the writer did not feel it: ${writePauseMs} ms`);
  assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
});

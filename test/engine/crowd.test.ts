import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { mountBucket } from "./engine-process.ts";
import { memoryMib } from "./process-figures.ts";
import { TestBucket } from "./test-bucket.ts";

const PEERS = 24;
const ROUNDS = process.env["FULL"] === "1" ? 10 : 2;
const FILE_BYTES = 12_000_000;
const PART_MIB = 5;
const MEMORY_TARGET_MIB = 128;
/** Node itself, its code, its young heap and its threads. */
const OVERHEAD_MIB = 140;
const CHUNK_BYTES = 256 * 1024;

/** The same bytes for the same name, each file different everywhere. */
function contentOf(name: string): Buffer {
  const block = createHash("sha512").update(name).digest();
  const content = Buffer.alloc(FILE_BYTES, block);
  for (let at = 0; at < FILE_BYTES; at += 4096) content.writeUInt32LE(at, at);
  return content;
}

async function writeInChunks(path: string, content: Buffer): Promise<void> {
  await using file = await fs.open(path, "w");
  for (let at = 0; at < content.length; at += CHUNK_BYTES) {
    await file.write(content.subarray(at, at + CHUNK_BYTES));
  }
}

async function checkInChunks(path: string, content: Buffer): Promise<void> {
  await using file = await fs.open(path, "r");
  const buffer = Buffer.alloc(CHUNK_BYTES);
  for (let at = 0; at < content.length;) {
    const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, at);
    assert(bytesRead > 0, `${path} ends at ${at}`);
    const expected = content.subarray(at, at + bytesRead);
    assert(buffer.subarray(0, bytesRead).equals(expected), `${path} differs at ${at}`);
    at += bytesRead;
  }
}

test(`${PEERS} readers and ${PEERS} writers at once: every byte is right, memory is bounded`, async () => {
  await using bucket = await TestBucket.start();
  const old = Array.from({ length: PEERS }, (_, n) => `old-${n}`);
  for (const name of old) await bucket.put(name, contentOf(name));
  const args = ["--memory-target", String(MEMORY_TARGET_MIB), "--part-size", `${PART_MIB << 20}`];
  await using mount = await mountBucket(bucket, [...args, "--allow-overwrite"]);
  const pid = mount.engine.servingPid ?? 0;

  const read = async (name: string) => {
    for (let round = 0; round < ROUNDS; round += 1) {
      await checkInChunks(join(mount.dir, name), contentOf(name));
    }
  };
  const write = async (n: number) => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const name = `new-${n}-${round}`;
      await writeInChunks(join(mount.dir, name), contentOf(name));
      assert((await bucket.get(name)).equals(contentOf(name)), `${name} as stored`);
    }
  };
  await Promise.all([...old.map(read), ...old.map((_, n) => write(n))]);

  assert.equal(await bucket.unfinishedUploads(), 0);
  // Who finds no room goes on with one part of its own; half of the target may lie idle besides.
  const limitMib = 1.5 * MEMORY_TARGET_MIB + 2 * PEERS * PART_MIB + OVERHEAD_MIB;
  const peakMib = memoryMib(pid, "VmHWM");
  assert(peakMib < limitMib, `${peakMib} MiB of at most ${limitMib}`);
  assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
});

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { keyOf } from "../../tools/stack/relay.ts";
import { mountBucket } from "./engine-process.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { startFileBucket } from "./fill-bucket.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const MIB = 1 << 20;
const OPEN_FILES = 200;
const OBJECT_BYTES = 64 * MIB;
const CONNECTIONS_MAX = 64;
/** Far more than each call takes; a call that waits for a place would take for ever. */
const LIMIT_MS = 10_000;

/** Objects of zeros that take no room: a sparse file with an ETag is one for the S3 server. */
const MAKE_OBJECTS = `
import os, sys
for n in range(int(sys.argv[1])):
    with open("idle-%d" % n, "w") as file:
        file.truncate(int(sys.argv[2]))
    os.setxattr("idle-%d" % n, "user.etag", b'"9dd4e461268c8034f5c8564e155c67a6"')
`;

async function within<T>(what: string, work: Promise<T>): Promise<T> {
  const late = sleep(LIMIT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`${what} takes longer than ${LIMIT_MS} ms`);
  });
  return Promise.race([work, late]);
}

/** All that must go on whatever else uses the connections to S3. */
async function checkOthersWork(bucket: TestBucket, dir: string): Promise<void> {
  assert.equal((await within("stat", fs.stat(join(dir, "other")))).size, 7);
  await within("readdir", fs.readdir(dir));
  await within("write", fs.writeFile(join(dir, "new"), "new"));
  assert.equal((await bucket.get("new")).toString(), "new");
  await within("unlink", fs.unlink(join(dir, "unwanted")));
}

test(`${OPEN_FILES} large files that are open and idle take no connection from others`, async () => {
  await using owned = new AsyncDisposableStack();
  const { bucket, bucketDir } = await startFileBucket();
  owned.use(bucket);
  const args = ["-c", MAKE_OBJECTS, String(OPEN_FILES), String(OBJECT_BYTES)];
  await run("python3", args, { cwd: bucketDir });
  await bucket.put("other", "as ever");
  await bucket.put("unwanted", "x");
  const mount = owned.use(await mountBucket(bucket, ["--allow-delete"]));
  const piece = Buffer.alloc(MIB);
  const files: fs.FileHandle[] = [];
  for (let n = 0; n < OPEN_FILES; n++) {
    const file = owned.use(await within("open", fs.open(join(mount.dir, `idle-${n}`))));
    assert.equal((await within("read", file.read(piece, 0, MIB, 0))).bytesRead, MIB);
    files.push(file);
  }
  await checkOthersWork(bucket, mount.dir);
  const other = await within("open", fs.readFile(join(mount.dir, "other"), "utf8"));
  assert.equal(other, "as ever");
  for (const file of files) {
    const at = OBJECT_BYTES - MIB;
    assert.equal((await within("read", file.read(piece, 0, MIB, at))).bytesRead, MIB);
  }
});

test("reads that S3 is slow to answer stay below the limit and leave room to others", async () => {
  const readers = 2 * CONNECTIONS_MAX;
  await using owned = new AsyncDisposableStack();
  const bucket = owned.use(await TestBucket.start());
  await bucket.put("other", "as ever");
  await bucket.put("unwanted", "x");
  await Promise.all(Array.from({ length: readers }, (_, n) => bucket.put(`slow-${n}`, `is ${n}`)));
  const { promise: letGo, resolve: release } = Promise.withResolvers<void>();
  const proxy = owned.use(await FaultProxy.start(bucket.access.endpoint, () => undefined));
  const gets = new Set<IncomingMessage>();
  let arrived = Promise.withResolvers<void>();
  proxy.hold = (request) => {
    if (request.method !== "GET" || !keyOf(request).startsWith("slow-")) return undefined;
    gets.add(request);
    arrived.resolve();
    return letGo;
  };
  const mount = owned.use(
    await mountBucket(bucket, ["--endpoint-url", proxy.url, "--allow-delete"]),
  );
  const texts = Array.from({ length: readers }, (_, n) => readByProgram(mount.dir, `slow-${n}`));
  const expected = CONNECTIONS_MAX * 0.75;
  while (gets.size < expected) {
    await within("all places for reads to be taken", arrived.promise);
    arrived = Promise.withResolvers();
  }
  await checkOthersWork(bucket, mount.dir);
  assert.equal(gets.size, expected, "GETs at once");
  release();
  for (const [n, text] of texts.entries()) assert.equal(await text, `is ${n}`);
});

/** A program of its own: a thread of Node's pool would wait for each read. */
async function readByProgram(dir: string, name: string): Promise<string> {
  const { stdout } = await run("cat", [join(dir, name)]);
  return stdout;
}

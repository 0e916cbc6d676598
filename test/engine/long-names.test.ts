import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { mountBucket } from "./engine-process.ts";
import { fillBucket, startFileBucket } from "./fill-bucket.ts";

const run = promisify(execFile);
const DIRECTORIES = 120;
const FILES = 200 * DIRECTORIES;
/** Few enough that the journal has its smallest size: the names do not fit into it at once. */
const INODE_LIMIT = 60_000;

const long = (letter: string) => letter.repeat(240);

test(`${FILES} names of 250 bytes are all found, although the journal has no room for them`, async () => {
  const started = await startFileBucket();
  await using bucket = started.bucket;
  const directories = Array.from(
    { length: DIRECTORIES },
    (_, n) => `${long("x")}/${n}-${long("y")}`,
  );
  await fillBucket(started.bucketDir, directories, FILES / DIRECTORIES, `%03d-${long("n")}`);
  const args = ["--inode-limit", String(INODE_LIMIT), "--metadata-ttl", "3600"];
  await using mount = await mountBucket(bucket, args);
  const script = `find "$1" -type f -printf '%s\\n' | sort | uniq -c`;
  const { stdout, stderr } = await run("sh", ["-c", script, "sh", mount.dir]);
  assert.equal(stderr, "");
  assert.equal(stdout.trim(), `${FILES} 1`);
  assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
});

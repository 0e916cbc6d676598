import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { mountBucket } from "./engine-process.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const PUTS_AT_ONCE = 8;
const DIRECTORIES = 60;
const FILES = 40;

const directories = (parent: string) =>
  Array.from({ length: DIRECTORIES }, (_, n) => `${parent}/d${String(n).padStart(2, "0")}`);
const filesIn = (directory: string, count = FILES) =>
  Array.from({ length: count }, (_, n) => `${directory}/f${n}`);

const SMALL = directories("small").flatMap((directory) => filesIn(directory));
const MIXED = new Set([
  ...directories("mixed").flatMap((directory, n) => filesIn(directory, n % 7)),
  ...filesIn("mixed/d20-"),
  ...filesIn("mixed/d20/deep/deeper"),
  ...filesIn("mixed/d30", 1200),
  ...filesIn("mixed/d300"),
  "mixed/d21.txt",
  "mixed/ö/f",
]);

describe("a walk through a tree", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    const left = [...SMALL, ...MIXED];
    const worker = async () => {
      for (let key = left.pop(); key !== undefined; key = left.pop()) await bucket.put(key, "x");
    };
    await Promise.all(Array.from({ length: PUTS_AT_ONCE }, worker));
  });
  after(() => bucket[Symbol.asyncDispose]());

  /** The files that `find` finds, and what was asked for that. */
  async function walk(tree: string): Promise<{ files: string[]; lists: string[] }> {
    const lists: string[] = [];
    await using proxy = await FaultProxy.start(bucket.access.endpoint, ({ url = "" }) => {
      if (url.includes("list-type=2")) lists.push(url);
      return undefined;
    });
    await using mount = await mountBucket(bucket, [], { AWS_ENDPOINT_URL: proxy.url });
    const found = await run("find", [join(mount.dir, tree), "-type", "f", "-size", "-2c"]);
    const paths = found.stdout.trimEnd().split("\n");
    return { files: paths.map((path) => path.slice(mount.dir.length + 1)), lists };
  }

  test("finds every file of small directories, by far fewer requests than these are", async () => {
    const { files, lists } = await walk("small");
    assert.deepEqual(files.toSorted(), SMALL.toSorted());
    assert(lists.length <= DIRECTORIES / 4, `${lists.length} requests:\n${lists.join("\n")}`);
  });

  test("finds every file of directories that are deep, large or odd", async () => {
    const { files } = await walk("mixed");
    assert.deepEqual(files.toSorted(), [...MIXED].toSorted());
  });
});

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
/** What ends it, or is at its edge, each in a tree of its own and between small directories. */
const ODD: Readonly<Record<string, readonly string[]>> = {
  deep: filesIn("deep/d20/deeper/deepest"),
  large: filesIn("large/d30", 1200),
  names: [...filesIn("names/d20-"), ...filesIn("names/d2"), "names/d21.txt", "names/ö/f"],
};
const ODD_TREES = new Map(
  Object.entries(ODD).map(([tree, odd]) => {
    const small = directories(tree).flatMap((directory, n) => filesIn(directory, (n * 5) % 31));
    return [tree, [...new Set([...small, ...odd])]];
  }),
);

describe("a walk through a tree", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    const left = [...SMALL, ...[...ODD_TREES.values()].flat()];
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

  for (const [tree, files] of ODD_TREES) {
    test(`finds every file where something is odd: ${tree}`, async () => {
      assert.deepEqual((await walk(tree)).files.toSorted(), files.toSorted());
    });
  }
});

/** Reads a directory by one descriptor, and deletes names between two reads of it. */
const DELETING_READER = `
import os, sys
directory, doomed = sys.argv[1], int(sys.argv[2])
names = sorted(os.listdir(directory))
entries = os.scandir(directory)
seen = [next(entries).name]
for name in names[:doomed]:
    os.unlink(os.path.join(directory, name))
seen += [entry.name for entry in entries]
print(*[name for name in names[doomed:] if name not in set(seen)])
`;

test("a reader sees all names behind those that were deleted meanwhile", async () => {
  await using bucket = await TestBucket.start();
  const left = filesIn("listed", 4_500);
  const worker = async () => {
    for (let key = left.pop(); key !== undefined; key = left.pop()) await bucket.put(key, "x");
  };
  await Promise.all(Array.from({ length: PUTS_AT_ONCE }, worker));
  await using mount = await mountBucket(bucket, ["--allow-delete"]);
  const args = ["-c", DELETING_READER, join(mount.dir, "listed"), "3500"];
  assert.equal((await run("python3", args)).stdout, "\n");
});

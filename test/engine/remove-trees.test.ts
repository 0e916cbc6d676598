import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { mountBucket } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";
import { runTreeTool } from "./tree-tools.ts";

const run = promisify(execFile);
const FILES_PER_DIRECTORY = 20;
const DIRECTORIES = ["a", "a/b", "a/b/c", "a/b/c/d/e", "f", "f/g", "f/h", "i/j/k", "l", "m", "n/o"];
/** Made by consoles: one for a directory with files, one with another below it, one alone. */
const MARKERS = ["a/", "n/", "empty/", "p/", "p/q/"];

function keysOfTree(): string[] {
  const names = Array.from({ length: FILES_PER_DIRECTORY }, (_, n) => `file-${n}`);
  return [...DIRECTORIES.flatMap((dir) => names.map((name) => `${dir}/${name}`)), ...MARKERS];
}

describe("programs that remove trees", () => {
  let bucket: TestBucket;
  let elsewhere: string;
  before(async () => {
    bucket = await TestBucket.start();
    elsewhere = await fs.mkdtemp(join(tmpdir(), "s3csi-trees-"));
  });
  after(async () => {
    await bucket[Symbol.asyncDispose]();
    await fs.rm(elsewhere, { recursive: true });
  });

  /** A mount whose only directory is `tree`. */
  async function mountTree(prefix: string, ttl: readonly string[]): Promise<MountedBucket> {
    const put = (key: string) => bucket.put(`${prefix}tree/${key}`, key.endsWith("/") ? "" : key);
    for (const key of keysOfTree()) await put(key);
    const allowed = ["--allow-delete", "--allow-overwrite"];
    return mountBucket(bucket, ["--prefix", prefix, ...allowed, ...ttl]);
  }

  const TTLS = { "the default TTL": [], "no TTL": ["--metadata-ttl", "0"] };
  const COMMANDS: Readonly<Record<string, (dir: string) => Promise<unknown>>> = {
    "rm -rf": (dir) => silent("rm", ["-rf", join(dir, "tree")]),
    "rm -r": (dir) => silent("rm", ["-r", join(dir, "tree")]),
    "find -delete": (dir) => silent("find", [join(dir, "tree"), "-delete"]),
    "find of the files, then of the directories": async (dir) => {
      await silent("find", [join(dir, "tree/a"), "-depth", "-type", "f", "-delete"]);
      await silent("rm", ["-r", join(dir, "tree")]);
    },
    "rsync --delete --inplace": async (dir) => {
      const source = await fs.mkdtemp(join(elsewhere, "source-"));
      await fs.mkdir(join(source, "new"));
      await fs.writeFile(join(source, "new/file"), "new");
      await runTreeTool("rsync", ["-r", "--delete", "--inplace", `${source}/`, `${dir}/`]);
      assert.equal(await fs.readFile(join(dir, "new/file"), "utf8"), "new");
      await fs.rm(join(source, "new"), { recursive: true });
      await runTreeTool("rsync", ["-r", "--delete", "--inplace", `${source}/`, `${dir}/`]);
    },
    "git clean -fdx": async (dir) => {
      const repository = await fs.mkdtemp(join(elsewhere, "repository-"));
      await runTreeTool("git", ["init", "-q", "--bare", "-b", "main", repository]);
      const cleaned = ["--git-dir", repository, "--work-tree", dir, "-C", dir];
      await runTreeTool("git", [...cleaned, "clean", "-fdxq"]);
    },
  };

  for (const [which, ttl] of Object.entries(TTLS)) {
    for (const [index, [name, remove]] of Object.entries(COMMANDS).entries()) {
      test(`${name}, ${which}`, async () => {
        const prefix = `${ttl.length}-${index}/`;
        await using mount = await mountTree(prefix, ttl);
        await remove(mount.dir);
        const left = (await bucket.keys()).filter((key) => key.startsWith(prefix));
        assert.deepEqual(left, []);
        assert.deepEqual(await fs.readdir(mount.dir), []);
        await assert.rejects(fs.stat(join(mount.dir, "tree")), { code: "ENOENT" });
        assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
      });
    }
  }
});

/** Fails when it says anything. */
async function silent(program: string, args: readonly string[]): Promise<void> {
  const { stdout, stderr } = await run(program, args);
  assert.equal(stdout + stderr, "");
}

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const OUTPUT = { maxBuffer: 16 << 20 };
const COUNT = 5_000;
const INODES_MAX = 500;
const PUTS_AT_ONCE = 64;

describe("a directory of many objects", () => {
  let bucket: TestBucket;
  const names = Array.from({ length: COUNT }, (_, n) => `f${String(n).padStart(5, "0")}`);

  before(async () => {
    bucket = await TestBucket.start();
    const left = [...names];
    const putAll = async () => {
      for (let name = left.pop(); name; name = left.pop()) await bucket.put(`many/${name}`, name);
    };
    await Promise.all(Array.from({ length: PUTS_AT_ONCE }, putAll));
  });
  after(() => bucket[Symbol.asyncDispose]());

  test("the kernel is made to forget, so that the inode table keeps its limit", async () => {
    const args = ["--debug", "--inode-limit", String(INODES_MAX), "--metadata-ttl", "60"];
    await using mount = await mountBucket(bucket, args);
    let output = "";
    mount.engine.child.stdout?.on("data", (data: Buffer) => (output += data.toString()));
    for (const time of ["first", "second"]) {
      const { stdout } = await run("find", [mount.dir, "-type", "f"], OUTPUT);
      assert.equal(stdout.trimEnd().split("\n").length, COUNT, time);
      const [some, other] = [names[17] ?? "", names[COUNT - 1] ?? ""];
      assert.equal(await fs.readFile(join(mount.dir, "many", some), "utf8"), some);
      assert.equal(await fs.readFile(join(mount.dir, "many", other), "utf8"), other);
    }
    await using open = await fs.open(join(mount.dir, "many", names[3] ?? ""));
    await run("find", [mount.dir, "-type", "f"], OUTPUT);
    assert.equal((await open.readFile()).toString(), names[3], "an open file is not forgotten");
    const sizes = Array.from(output.matchAll(/"inodes":(\d+)/g), ([, size]) => Number(size));
    assert(sizes.length > 0, "it was never crowded");
    assert(Math.max(...sizes) <= INODES_MAX * 1.3, `inodes: ${sizes.join(" ")}`);
  });

  test("it can be read from any position, again and again", async () => {
    await using mount = await mountBucket(bucket);
    const script = `
      opendir(my $d, "many") or die; my @all = grep { !/^\\./ } readdir $d;
      rewinddir $d; my @again = grep { !/^\\./ } readdir $d;
      rewinddir $d; readdir $d for 1 .. 100; my $at = telldir $d; my $next = readdir $d;
      readdir $d for 1 .. 4000; seekdir $d, $at; my $same = readdir $d;
      print join(" ", scalar @all, "@all" eq "@again" ? "same" : "differs", $next, $same), "\\n";
      print "$_\\n" for @all;`;
    const { stdout } = await run("perl", ["-e", script], { cwd: mount.dir, ...OUTPUT });
    const [summary, ...read] = stdout.trimEnd().split("\n");
    assert.equal(summary, `${COUNT} same ${names[98]} ${names[98]}`);
    assert.deepEqual(read, names);
  });
});

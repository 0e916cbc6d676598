import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { startSwiftServer, SWIFT_PAGE_KEYS } from "../../tools/stack/swift-server.ts";
import { mountBucket } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const LONGEST_NAME = "n".repeat(255);
const KEY_BYTES_MAX = 1024;
/** To be filled up to the limit by one more part. */
const LONGEST_KEY = ["long", ...Array.from({ length: 4 }, () => "k".repeat(203))].join("/");
const PUTS_AT_ONCE = 8;

const byBytes = (left: string, right: string) =>
  Buffer.compare(Buffer.from(left), Buffer.from(right));

/** In the order of the directory: fs.readdir sorts. */
async function listed(path: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await fs.opendir(path)) names.push(name);
  return names;
}

describe("keys that are no paths", () => {
  let bucket: TestBucket;
  let mount: MountedBucket;
  const at = (...names: string[]) => join(mount.dir, ...names);

  before(async () => {
    bucket = await TestBucket.start(startSwiftServer);
    const args = ["--allow-delete", "--upload-checksums", "off"]; // of a younger S3 than Swift's
    mount = await mountBucket(bucket, args);
  });
  after(async () => {
    await mount[Symbol.asyncDispose]();
    await bucket[Symbol.asyncDispose]();
  });

  async function putAll(keys: readonly string[]): Promise<void> {
    const left = [...keys];
    const worker = async () => {
      for (let key = left.pop(); key !== undefined; key = left.pop()) await bucket.put(key, key);
    };
    await Promise.all(Array.from({ length: PUTS_AT_ONCE }, worker));
  }

  // prettier-ignore
  const hidden: [name: string, key: string, shown: string[]][] = [
    ["an empty part",                "a//b",                   ["a"]],
    ["an empty part at the start",   "/b",                     []],
    ["`.` at the start",             "./b",                    []],
    ["`.` in the middle",            "a/./b",                  ["a"]],
    ["`.` at the end",               "a/.",                    ["a"]],
    ["`..` at the start",            "../b",                   []],
    ["`..` in the middle",           "a/../b",                 ["a"]],
    ["`..` at the end",              "a/..",                   ["a"]],
    ["a part of 256 bytes",          "n".repeat(256),          []],
    ["a directory of 256 bytes",     `a/${"ü".repeat(128)}/b`, ["a"]],
    ["a slash at the end",           "a/",                     ["a"]],
    ["slashes at the end",           "a//",                    ["a"]],
  ];
  for (const [index, [name, key, shown]] of hidden.entries()) {
    test(`${name}: the key is hidden, what is above it shows`, async () => {
      const top = `hidden-${index}`;
      await putAll([`${top}/${key}`, `${top}/z`]);
      assert.deepEqual(await listed(at(top)), [...shown, "z"]);
      for (const directory of shown) {
        assert((await fs.stat(at(top, directory))).isDirectory());
        assert.deepEqual(await listed(at(top, directory)), []);
      }
      assert.equal(await fs.readFile(at(top, "z"), "utf8"), `${top}/z`);
      assert.equal((await bucket.get(`${top}/${key}`)).toString(), `${top}/${key}`, "still there");
    });
  }

  test("a directory is what it is although an object has its name", async () => {
    await putAll(["both/a", "both/a/b", "both/c", "both/c-1", "both/d/", "both/d/e"]);
    assert.deepEqual(await listed(at("both")), ["a", "c", "c-1", "d"]);
    assert((await fs.stat(at("both/a"))).isDirectory());
    assert.deepEqual(await listed(at("both/a")), ["b"]);
    assert.deepEqual(await listed(at("both/d")), ["e"]);
    assert.equal(await fs.readFile(at("both/a/b"), "utf8"), "both/a/b");
    await assert.rejects(fs.readFile(at("both/a")), { code: "EISDIR" });
    await assert.rejects(fs.unlink(at("both/a")), { code: "EISDIR" });
    await assert.rejects(fs.rmdir(at("both/a")), { code: "ENOTEMPTY" });
    await bucket.delete("both/a/b");
    assert.deepEqual(await listed(at("both")), ["a", "c", "c-1", "d"]);
    await using fresh = await mountBucket(bucket, ["--allow-delete"]);
    assert.equal(await fs.readFile(join(fresh.dir, "both/a"), "utf8"), "both/a", "the file shows");
    await fs.unlink(join(fresh.dir, "both/a"));
    assert(!(await bucket.keys()).includes("both/a"));
  });

  test("only the longest names and keys are files, both ways", async () => {
    const key = `${LONGEST_KEY}/${"k".repeat(KEY_BYTES_MAX - LONGEST_KEY.length - 1)}`;
    assert.equal(Buffer.byteLength(key), KEY_BYTES_MAX);
    await putAll([key, `names/${LONGEST_NAME}`]);
    assert.equal(await fs.readFile(at(key), "utf8"), key);
    assert.deepEqual(await listed(at("names")), [LONGEST_NAME]);
    assert.equal(await fs.readFile(at("names", LONGEST_NAME), "utf8"), `names/${LONGEST_NAME}`);
    await fs.writeFile(at("names", "w".repeat(255)), "written");
    assert.equal((await bucket.get(`names/${"w".repeat(255)}`)).toString(), "written");
    await assert.rejects(fs.stat(at("names", "n".repeat(256))), { code: "ENAMETOOLONG" });
    await fs.unlink(at(key));
    await assert.rejects(fs.stat(at(key)), { code: "ENOENT" });
  });

  test("any other byte is a part of a name", async () => {
    const names = ["tab\t", "line\n", "\u007f", "back\\slash", " ", "...", "..a", "a.", "\uffff"];
    names.push("\u{1f4a9}", "%2F", "%00", "+", "a&b=c", "~", "*?", "e\u0301", "\u00e9", "\r");
    await putAll(names.map((name) => `bytes/${name}`));
    assert.deepEqual(await listed(at("bytes")), names.toSorted(byBytes));
    for (const name of names) {
      assert.equal(await fs.readFile(at("bytes", name), "utf8"), `bytes/${name}`);
      await fs.unlink(at("bytes", name));
    }
    assert(!(await bucket.keys()).some((key) => key.startsWith("bytes/")));
    const binary = Buffer.concat([Buffer.from(at("bad-")), Buffer.from([0xff, 0xfe])]);
    await assert.rejects(fs.stat(binary), { code: "EILSEQ" });
  });

  test("at the border of two pages nothing is lost, doubled or wrongly shown", async () => {
    // `p` ends the first page and its directory `p/` comes in the second, behind `p-…`.
    const first = Array.from({ length: SWIFT_PAGE_KEYS - 1 }, (_, n) => `f${1000 + n}`);
    const between = ["p-1", "p-2", "p."];
    const keys = [...first, "p", ...between, "p/x", "p/y", "q/1", "q/2", "r//s", "t"];
    await putAll(keys.map((key) => `pages/${key}`));
    assert.deepEqual(await listed(at("pages")), [...first, ...between, "p", "q", "r", "t"]);
    assert((await fs.stat(at("pages/p"))).isDirectory());
    for (const name of ["f1000", "f1098", "p-1", "t"]) {
      assert.equal(await fs.readFile(at("pages", name), "utf8"), `pages/${name}`);
    }
    // One key less in front: the page ends with `p-1`, the object `p` is already behind the reader.
    await bucket.delete("pages/f1000");
    const shown = [...first.slice(1), ...between, "p", "q", "r", "t"];
    assert.deepEqual(await listed(at("pages")), shown);
    await bucket.delete("pages/f1001");
    await bucket.delete("pages/f1002");
    await bucket.delete("pages/f1003"); // now `p/` is the last of the first page
    assert.deepEqual(await listed(at("pages")), shown.slice(3));
  });
});

import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { keyOf } from "../../tools/stack/relay.ts";
import { mountBucket } from "./engine-process.ts";
import { RewritingProxy } from "./rewriting-proxy.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const REPLACED = 50;
const FILES = 40;
const MIB = 1 << 20;

describe("an open sees what S3 has", () => {
  let bucket: TestBucket;
  let proxy: RewritingProxy;
  before(async () => {
    bucket = await TestBucket.start();
    proxy = await RewritingProxy.start(bucket.access.endpoint);
  });
  after(async () => {
    await proxy[Symbol.asyncDispose]();
    await bucket[Symbol.asyncDispose]();
  });

  async function mounted(...args: string[]) {
    proxy.rewrite = (_, answer) => answer;
    const mount = await mountBucket(bucket, args, { AWS_ENDPOINT_URL: proxy.url });
    const at = (name: string) => join(mount.dir, name);
    return { dir: mount.dir, at, [Symbol.asyncDispose]: () => mount[Symbol.asyncDispose]() };
  }

  for (const [what, sizeBytes] of [
    ["small", 9],
    ["as large as the first GET", MIB],
    ["large", 3 * MIB],
  ] as const) {
    test(`an object that is ${what} and replaced again and again: always the new content`, async () => {
      await using mount = await mounted();
      for (let n = 0; n < REPLACED; n++) {
        const content = Buffer.alloc(sizeBytes + (n % 3), `version ${n}, `);
        await bucket.put("replaced", content);
        assert((await fs.readFile(mount.at("replaced"))).equals(content), `version ${n}`);
        if (n % 5 === 0) await fs.stat(mount.at("replaced"));
        if (n % 7 === 0) assert((await fs.readFile(mount.at("replaced"))).equals(content), "again");
      }
      await bucket.delete("replaced");
      await assert.rejects(fs.readFile(mount.at("replaced")), /ENOENT/);
    });
  }

  test("a version that comes back, and one that replaces what was written here", async () => {
    await using mount = await mounted("--allow-overwrite");
    for (const text of ["one", "other", "one", "other", "one"]) {
      await bucket.put("back", text);
      assert.equal(await fs.readFile(mount.at("back"), "utf8"), text);
    }
    for (let n = 0; n < 10; n++) {
      await fs.writeFile(mount.at("ours"), `ours ${n}`);
      await bucket.put("ours", `theirs ${n}`);
      assert.equal(await fs.readFile(mount.at("ours"), "utf8"), `theirs ${n}`);
    }
  });

  test("with --metadata-ttl it may be what was there before", async () => {
    await using mount = await mounted("--metadata-ttl", "60");
    await bucket.put("trusted", "old");
    assert.equal(await fs.readFile(mount.at("trusted"), "utf8"), "old");
    await bucket.put("trusted", "new");
    assert.equal(await fs.readFile(mount.at("trusted"), "utf8"), "old");
  });

  test("listed files cost one GET each, and one HEAD each when they are read again", async () => {
    const names = Array.from({ length: FILES }, (_, n) => `listed/f${n}`);
    for (const name of names) await bucket.put(name, `content of ${name}`);
    await using mount = await mounted();
    await run("ls", ["-l", mount.at("listed")]);
    proxy.take();
    for (const name of names) {
      assert.equal(await fs.readFile(mount.at(name), "utf8"), `content of ${name}`);
    }
    const gets = proxy.take().filter((request) => request.startsWith("GET listed/"));
    assert.deepEqual(
      gets,
      names.map((name) => `GET ${name}`),
    );
    for (const name of names) await fs.readFile(mount.at(name));
    const again = proxy.take().filter((request) => /^(?:GET|HEAD) listed\/f/.test(request));
    assert(
      again.every((request) => request.startsWith("HEAD ")),
      again.join("\n"),
    );
  });

  test("a restored object of the archive is read, one that is not is EACCES", async () => {
    for (const [args, isRestored] of [
      [[], true],
      [["--metadata-ttl", "60"], true],
      [[], false],
    ] as const) {
      await bucket.put("archive/object", "from the archive");
      await using mount = await mounted(...args);
      const restore = isRestored ? { "x-amz-restore": 'ongoing-request="false"' } : {};
      proxy.rewrite = (request, answer) => {
        if (request.method === "HEAD" && keyOf(request) !== "") {
          const headers = { ...answer.headers, "x-amz-storage-class": "GLACIER", ...restore };
          return { ...answer, headers };
        }
        const body = answer.body.toString().replaceAll(">STANDARD<", ">GLACIER<");
        return keyOf(request) === "" ? { ...answer, body: Buffer.from(body) } : answer;
      };
      await run("ls", ["-l", mount.at("archive")]);
      const reading = fs.readFile(mount.at("archive/object"), "utf8");
      if (isRestored) assert.equal(await reading, "from the archive");
      else await assert.rejects(reading, /EACCES/);
    }
  });
});

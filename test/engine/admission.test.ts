import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync } from "node:fs";
import * as fs from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { mountFuse, openFuseDevice, unmount } from "../../src/sys/fuse-mount.ts";
import { MOUNT, engineEnvironment } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const OWNER = 4321;
const OTHER = 5432;
/** The engine's user can start the pinned Node also where the clone is below root's own home. */
const READS_CLONE = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"];

/** As in a Mountpoint Pod: root mounts, an ordinary user serves. */
async function mountAs(uid: number, bucket: TestBucket, args: readonly string[]) {
  await using owned = new AsyncDisposableStack();
  const dir = await fs.mkdtemp(join(tmpdir(), "s3csi-admission-"));
  owned.defer(() => fs.rmdir(dir));
  const fd = openFuseDevice();
  owned.defer(() => closeSync(fd));
  mountFuse(fd, dir, { readOnly: false, source: "test" });
  owned.defer(() => unmount(dir, { detach: true }));
  const mode = [
    "--uid",
    String(uid),
    "--gid",
    String(uid),
    "--file-mode",
    "0666",
    "--dir-mode",
    "0777",
  ];
  const engine = spawn(
    "setpriv",
    [
      ...identity(uid),
      ...READS_CLONE,
      process.execPath,
      ...MOUNT,
      bucket.name,
      "/dev/fd/3",
      ...mode,
      ...args,
    ],
    { env: engineEnvironment(bucket), stdio: ["ignore", "pipe", "inherit", fd] },
  );
  const ended = once(engine, "exit").then(() => assert.fail("the engine has ended"));
  owned.defer(async () => {
    engine.kill("SIGKILL");
    await ended.catch(() => undefined);
  });
  assert(engine.stdout !== null);
  await Promise.race([once(engine.stdout, "data"), ended]); // "mounted" is the first line
  const all = owned.move();
  return { dir, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

function identity(uid: number): string[] {
  return ["--reuid", String(uid), "--regid", String(uid), "--clear-groups"];
}

/** Whether that user can read, list, write and look; all of it or nothing. */
async function access(uid: number, dir: string): Promise<string> {
  const attempts = [`cat ${dir}/file`, `ls ${dir}`, `echo x > ${dir}/by-${uid}`, `stat ${dir}/no`];
  const outcomes = await Promise.all(
    attempts.map((command) =>
      run("setpriv", [...identity(uid), "sh", "-c", command], { env: { LC_ALL: "C" } }).then(
        () => "let in",
        (error: Error) => (/Permission denied/.test(error.message) ? "denied" : "let in"),
      ),
    ),
  );
  return [...new Set(outcomes)].join(" and ");
}

describe("who is let in", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("file", "content");
  });
  after(() => bucket[Symbol.asyncDispose]());

  // prettier-ignore
  const cases: [args: string[], owner: string, root: string, other: string][] = [
    [[],                "let in", "denied", "denied"],
    [["--allow-root"],  "let in", "let in", "denied"],
    [["--allow-other"], "let in", "let in", "let in"],
  ];
  for (const [args, owner, root, other] of cases) {
    test(`${args[0] ?? "neither option"}: root ${root}, others ${other}`, async () => {
      await using mount = await mountAs(OWNER, bucket, [...args, "--metadata-ttl", "0"]);
      assert.equal(await access(OTHER, mount.dir), other, "another user");
      assert.equal(await access(0, mount.dir), root, "root");
      assert.equal(await access(OWNER, mount.dir), owner, "the owner");
    });
  }
});

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { EngineKiller } from "../../tools/bench/survive/engine-killer.ts";
import { mountShipped } from "./engine-process.ts";
import { limitMemory } from "./memory-limit.ts";
import { fillBucket, startFileBucket } from "./fill-bucket.ts";
import type { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const MIB = 1 << 20;
const CONTAINER_MIB = 128;
const DIRECTORIES = 250;
const FILES_PER_DIRECTORY = 1000;
const NAMES = DIRECTORIES * FILES_PER_DIRECTORY;
const WRITERS = 64;
const WRITTEN_BYTES = 20 * MIB;
const KILLS = 3;
/** The memory of writers that are ahead of S3, beyond that of an idle mount. */
const LOAD_MIB = 12;
const LOAD_LIMIT_MS = 60_000;
const LOOK_AGAIN_MS = 5;
/** An engine that is killed for memory again and again would be waited for without end. */
const WITHIN = ["--signal=KILL", "180", "sh", "-c"] as const;
/** Both processes of a mount that has nothing to do, with a full table of names and its journal. */
const IDLE_MIB_MAX = 80;

/** All at once, each another part of the source; fails when one of them fails. */
const WRITE = `pids=""
  for n in $(seq 0 $(($3 - 1))); do
    dd if="$1" of="$2/written-$n" bs=128K iflag=skip_bytes,count_bytes skip=$((n * 4096)) \\
      count="$4" conv=fsync status=none &
    pids="$pids $!"
  done
  failed=0; for pid in $pids; do wait "$pid" || failed=1; done; exit $failed`;

/** The kernel tells nobody how full a cgroup is. */
async function untilHeld(heldMib: () => number, mib: number): Promise<void> {
  const deadline = AbortSignal.timeout(LOAD_LIMIT_MS);
  while (heldMib() < mib) await delay(LOOK_AGAIN_MS, undefined, { signal: deadline });
}

/** Lists and looks up every name of the tree. */
async function walk(dir: string): Promise<void> {
  const find = `find "$1" -type f -size -2c -printf . | wc -c`;
  const { stdout } = await run("timeout", [...WITHIN, find, "sh", join(dir, "tree")]);
  assert.equal(Number(stdout), NAMES);
}

const digestOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

describe(`a container of ${CONTAINER_MIB} MiB`, () => {
  let bucket: TestBucket;
  let source: string;
  let content: Buffer;
  before(async () => {
    const started = await startFileBucket();
    ({ bucket } = started);
    const names = Array.from({ length: DIRECTORIES }, (_, n) => `tree/some-directory-${n}`);
    await fillBucket(
      started.bucketDir,
      names,
      FILES_PER_DIRECTORY,
      "file-with-a-name-of-usual-length-%06d",
    );
    source = join(await mkdtemp(join(tmpdir(), "s3csi-small-")), "source");
    content = randomBytes(WRITTEN_BYTES + WRITERS * 4096);
    await writeFile(source, content);
  });
  after(async () => {
    await rm(join(source, ".."), { recursive: true });
    await bucket[Symbol.asyncDispose]();
  });

  test(`${NAMES} names are listed and looked up, and a successor starts with room`, async (t) => {
    await using limit = await limitMemory(CONTAINER_MIB);
    await using mount = await mountShipped(bucket, [], { NODE_OPTIONS: limit.nodeOption });
    const killer = new EngineKiller(mount.engine.child);
    await walk(mount.dir);
    assert.equal(limit.oomKills(), 0, "the container's limit was exceeded");
    const heldMib = limit.heldMib();
    await killer.kill();
    await killer.untilServing();
    const name = join(mount.dir, "tree/some-directory-7/file-with-a-name-of-usual-length-000007");
    assert.equal((await stat(name)).size, 1);
    const afterwards = limit.heldMib();
    t.diagnostic(`${heldMib.toFixed(0)} MiB held, by the successor ${afterwards.toFixed(0)} MiB`);
    assert(afterwards < IDLE_MIB_MAX, `the successor holds ${afterwards} MiB`);
    assert.equal(limit.oomKills(), 0, "the successor has exceeded the limit");
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
  });

  test("an option that asks for more than there is is reduced, and the log says so", async () => {
    await using limit = await limitMemory(CONTAINER_MIB);
    const options = ["--inode-limit", "1000000"];
    await using mount = await mountShipped(bucket, options, { NODE_OPTIONS: limit.nodeOption });
    await new EngineKiller(mount.engine.child).kill();
    await stat(mount.dir);
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    const lines = mount.engine.logged;
    const [line = "", ...others] = lines.filter((text) => text.includes("option reduced"));
    assert.match(line, /"option":"--inode-limit","given":1000000,"maximum":\d{5},/);
    assert.deepEqual(others, [], "it is said once");
  });

  for (const { names, kills } of [
    { names: 0, kills: 0 },
    { names: 0, kills: KILLS },
    { names: NAMES, kills: KILLS },
  ]) {
    const title = `${WRITERS} writers at once, ${kills} kills at full load, ${names} known names`;
    test(title, async (t) => {
      await using limit = await limitMemory(CONTAINER_MIB);
      const options = ["--allow-overwrite"];
      await using mount = await mountShipped(bucket, options, { NODE_OPTIONS: limit.nodeOption });
      const killer = new EngineKiller(mount.engine.child);
      if (names > 0) {
        await walk(mount.dir);
        await killer.kill();
        await killer.untilServing();
      }
      const idleMib = limit.heldMib();
      const args = [source, mount.dir, String(WRITERS), String(WRITTEN_BYTES)];
      const written = run("timeout", [...WITHIN, WRITE, "sh", ...args]);
      written.catch(() => undefined); // it is waited for below
      for (let n = 0; n < kills; n++) {
        await killer.untilServing();
        await untilHeld(() => limit.heldMib(), idleMib + LOAD_MIB);
        await killer.kill();
      }
      await written;
      await killer.untilServing();
      for (let n = 0; n < WRITERS; n++) {
        const wanted = content.subarray(n * 4096, n * 4096 + WRITTEN_BYTES);
        assert.equal(digestOf(await bucket.get(`written-${n}`)), digestOf(wanted), `file ${n}`);
      }
      t.diagnostic(`${limit.heldMib().toFixed(0)} MiB held, ${idleMib.toFixed(0)} at the start`);
      assert.equal(limit.oomKills(), 0, "the container's limit was exceeded");
      assert.equal(killer.kills, kills + (names > 0 ? 1 : 0));
      assert.equal(await bucket.unfinishedUploads(), 0);
      assert(limit.heldMib() < IDLE_MIB_MAX, `${limit.heldMib()} MiB are held without any work`);
      assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    });
  }
});

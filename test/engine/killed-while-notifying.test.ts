import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { mountAt, readMounts } from "../../src/sys/mount-info.ts";
import { FuseConnection } from "../../src/sys/fuse-connection.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { mountShipped } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const FILES = 400;
const KILLS = 3;
const DELAY_MS = 300;
/** The kernel function in which a thread that writes FUSE_NOTIFY_INVAL_ENTRY waits for the lock. */
const WAITS_IN = "fuse_reverse_inval_entry";

/** Whether a thread of the process waits for a directory's lock. */
function hasWaitingThread(pid: number): boolean {
  const threads = `/proc/${pid}/task`;
  try {
    const found = readdirSync(threads);
    return found.some((tid) => readFileSync(`${threads}/${tid}/wchan`, "utf8") === WAITS_IN);
  } catch {
    return false; // a thread has ended meanwhile
  }
}

/** Whether the main thread has ended, which alone serves requests and their answers. */
function hasStopped(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/task/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}

/**
 * With more names than --inode-limit the kernel is asked to forget some. It does so under the
 * directory's lock, which a LOOKUP holds that the engine has not answered yet: an engine that is
 * killed then leaves a thread in the kernel that only its successor's answer releases.
 */
test("an engine that is killed while it waits for a directory's lock is replaced", async (t) => {
  await using bucket = await TestBucket.start();
  await Promise.all(Array.from({ length: FILES }, (_, n) => bucket.put(`many/f${n}`, "x")));
  await using proxy = await FaultProxy.start(bucket.access.endpoint, () => undefined);
  const args = ["--endpoint-url", proxy.url, "--inode-limit", "100", "--metadata-ttl", "60"];
  await using mount = await mountShipped(bucket, [...args, "--negative-metadata-ttl", "0"]);
  const device = mountAt(readMounts(), mount.dir)?.device ?? "";
  await using owned = new AsyncDisposableStack();
  const connection = owned.use(new FuseConnection(device));
  owned.defer(() => connection.abort()); // should the test fail: nothing may wait for ever
  proxy.hold = () => sleep(DELAY_MS);
  const many = join(mount.dir, "many");
  for (const call of [`stat ${many}/a`, `stat ${many}/b`, `ls -l ${many}`]) {
    const loop = `while :; do ${call}; done`;
    const child = spawn("setpriv", ["--pdeathsig", "KILL", "sh", "-c", loop], { stdio: "ignore" });
    owned.defer(() => void child.kill("SIGKILL"));
  }
  // The kernel tells of none of these events: each loop ends with the test at the latest.
  const until = async (isThere: () => boolean) => {
    while (!isThere()) await sleep(2, undefined, { signal: t.signal });
  };
  const killed = new Set<number>();
  const successor = () => mount.engine.servingPids.find((pid) => !killed.has(pid));
  let killedWhileWaiting = 0;
  while (killedWhileWaiting < KILLS) {
    const pid = successor() ?? 0;
    await until(() => hasWaitingThread(pid));
    process.kill(pid, "SIGKILL");
    killed.add(pid);
    await until(() => hasStopped(pid));
    // A LOOKUP may have been answered before the signal came: then nothing was tested.
    if (hasWaitingThread(pid)) killedWhileWaiting += 1;
    await until(() => successor() !== undefined);
  }
  t.diagnostic(`${killed.size} engines killed, ${killedWhileWaiting} of them while they waited`);
  proxy.hold = () => undefined;
  await mount.engine.stop("SIGTERM");
  assert.equal(mountAt(readMounts(), mount.dir), undefined);
});

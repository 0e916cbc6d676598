import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { mountBucket } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { TestBucket } from "./test-bucket.ts";
import { TlsFront } from "./tls-front.ts";

const run = promisify(execFile);
const FILE = randomBytes(300_000);
const LINK = `s3csi-${process.pid}`;
const ADDRESSES = ["10.211.77.1", "10.211.77.2"] as const;
const RESUMED_WITHIN_MS = 20_000;
/** Longer than a cache that could not be opened is left alone. */
const CACHE_LIMIT_MS = 30_000;

async function readsAnew(mount: MountedBucket): Promise<void> {
  const path = join(mount.dir, "file");
  await run("dd", [`if=${path}`, "iflag=nocache", "count=0", "status=none"]);
  assert((await fs.readFile(path)).equals(FILE));
}

async function addLink(address: string): Promise<void> {
  await run("ip", ["link", "add", LINK, "type", "bridge"]);
  await run("ip", ["addr", "add", `${address}/32`, "dev", LINK]);
  await run("ip", ["link", "set", LINK, "up"]);
}

async function deleteLink(): Promise<void> {
  await run("ip", ["link", "delete", LINK]).catch(() => undefined); // it is gone already
}

describe("an engine that resumes a mount", () => {
  let bucket: TestBucket;
  let proxy: FaultProxy;
  let fetches = 0;
  let written = 0;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("file", FILE);
    proxy = await FaultProxy.start(bucket.access.endpoint, ({ method, url }) => {
      if (method === "GET" && url?.includes("/file") === true) fetches += 1;
      return undefined;
    });
  });
  after(() => proxy[Symbol.asyncDispose]());
  after(() => bucket[Symbol.asyncDispose]());

  /** While a file is being written: what was taken of it must not be lost. */
  async function killsEngine(mount: MountedBucket, change: () => Promise<unknown>): Promise<void> {
    const name = `written-${written++}`;
    const file = await fs.open(join(mount.dir, name), "w");
    const half = FILE.length / 2;
    await file.write(FILE.subarray(0, half));
    await change();
    const { servingPid = 0 } = mount.engine;
    process.kill(servingPid, "SIGKILL");
    const answered = fs.statfs(mount.dir); // by the next engine, without S3
    const late = delay(RESUMED_WITHIN_MS, undefined, { ref: false });
    await Promise.race([answered, late.then(() => assert.fail("no engine has resumed the mount"))]);
    assert.notEqual(mount.engine.servingPid, servingPid);
    await file.write(FILE.subarray(half));
    await file.close();
    assert((await bucket.get(name)).equals(FILE));
  }

  /** Reads until S3 is not asked for contents any more. */
  async function comesFromCache(mount: MountedBucket): Promise<void> {
    const signal = AbortSignal.timeout(CACHE_LIMIT_MS);
    for (fetches = 1; fetches > 0; await delay(200, undefined, { signal })) {
      fetches = 0;
      await readsAnew(mount);
    }
  }

  test("goes on without the cache while its directory is gone, and uses it again afterwards", async () => {
    await using cache = await temporaryDirectory();
    const directory = join(cache.path, "cache");
    await fs.mkdir(directory);
    const words = ["--endpoint-url", proxy.url, "--cache", directory];
    await using mount = await mountBucket(bucket, words);
    await killsEngine(mount, () => fs.rm(directory, { recursive: true }));
    await readsAnew(mount);
    await fs.mkdir(directory);
    await comesFromCache(mount);
  });

  test("goes on without the cache while a process holds its lock, and uses it again afterwards", async () => {
    await using cache = await temporaryDirectory();
    const words = ["--endpoint-url", proxy.url, "--cache", cache.path];
    await using mount = await mountBucket(bucket, words);
    const lock = join(cache.path, "s3csi-cache/lock");
    // flock(1) waits for the lock of the engine, and has it before the next engine asks.
    const command = ["--pdeathsig", "KILL", "flock", lock, "cat"];
    const holder = spawn("setpriv", command, { stdio: ["pipe", "ignore", "ignore"] });
    using owned = new DisposableStack();
    owned.defer(() => holder.stdin.end());
    const ended = once(holder, "exit");
    await delay(300); // flock(1) does not tell that it waits
    await killsEngine(mount, async () => undefined);
    await readsAnew(mount);
    assert(mount.engine.logged.some((line) => line.includes("another mount uses it")));
    holder.stdin.end();
    await ended;
    await comesFromCache(mount);
  });

  test("waits for a CA bundle that can't be read", async () => {
    const listen = { host: "localhost", port: 0 };
    await using front = await TlsFront.start(bucket.access.endpoint, "localhost", listen);
    await using files = await temporaryDirectory();
    const bundle = join(files.path, "ca.crt");
    await fs.copyFile(front.ca, bundle);
    const words = ["--endpoint-url", front.url, "--ca-bundle", bundle];
    await using mount = await mountBucket(bucket, words);
    const resumed = killsEngine(mount, () => fs.rm(bundle));
    resumed.catch(() => undefined); // waited for below
    await delay(2_000); // without it the engine must wait, and nobody tells that it does
    await fs.copyFile(front.ca, bundle);
    await resumed;
    await readsAnew(mount);
  });

  test("waits for its network interface, and takes the address that it has then", async () => {
    await using owned = new AsyncDisposableStack();
    owned.defer(deleteLink);
    await addLink(ADDRESSES[0]);
    await using mount = await mountBucket(bucket, ["--bind", LINK]);
    const resumed = killsEngine(mount, deleteLink);
    resumed.catch(() => undefined); // waited for below
    await delay(2_000); // without it the engine must wait, and nobody tells that it does
    await addLink(ADDRESSES[1]);
    await resumed;
    await readsAnew(mount);
  });
});

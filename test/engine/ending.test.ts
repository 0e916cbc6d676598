import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { CONTROL_FD_VARIABLE } from "../../src/supervisor/control-messages.ts";
import { mountFuse, openFuseDevice, unmount } from "../../src/sys/fuse-mount.ts";
import { closeMountFds, createMountMemory, MOUNT_FDS } from "../../src/sys/mount-fds.ts";
import type { MountFds } from "../../src/sys/mount-fds.ts";
import { MOUNT, mountBucket } from "./engine-process.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { TestBucket } from "./test-bucket.ts";

/** No process tells that it has ignored a signal. */
const SIGNAL_TAKEN_MS = 300;
const CONTROL_FD = 3;
const FDS = { fuseFd: 4, slotsFd: 5, journalFd: 6, spoolFd: 7 };

/** What the node service does: it owns the connection, and an engine is only started on it. */
async function ownMount() {
  await using owned = new AsyncDisposableStack();
  const dir = await fs.mkdtemp(join(tmpdir(), "s3csi-owner-"));
  owned.defer(() => fs.rmdir(dir));
  const fds = { fuse: openFuseDevice(), ...createMountMemory() };
  mountFuse(fds.fuse, dir, { readOnly: false, source: "s3csi-test" });
  let held = true;
  /** The last holder goes: the connection is over, and whoever waits on it is told. */
  const leave = () => {
    if (!held) return;
    held = false;
    unmount(dir, { detach: true });
    closeMountFds(fds);
  };
  owned.defer(leave);
  const all = owned.move();
  return { dir, fds, leave, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

describe("how an engine begins and ends", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
  });
  after(() => bucket[Symbol.asyncDispose]());

  function startEngine({ fds }: { fds: MountFds }, args: string[] = []) {
    const words = [MOUNT[0], "engine", bucket.name, "/dev/fd/0", ...args];
    const env = {
      AWS_ENDPOINT_URL: bucket.access.endpoint,
      UV_THREADPOOL_SIZE: "12",
      [CONTROL_FD_VARIABLE]: String(CONTROL_FD),
    };
    const child = spawn(process.execPath, words, {
      env,
      stdio: ["ignore", "ignore", "ignore", "pipe", ...MOUNT_FDS.map((name) => fds[name])],
    });
    const exited = once(child, "exit");
    const control = child.stdio[CONTROL_FD];
    assert(control instanceof Socket);
    const lines = createInterface({ input: control })[Symbol.asyncIterator]();
    return {
      exited,
      tell: (message: object) => control.write(`${JSON.stringify(message)}\n`),
      /** What it says next; nothing more when it has closed the line. */
      said: async () => {
        const { value, done } = await lines.next();
        return done === true ? undefined : JSON.parse(value);
      },
      hangUp: () => control.destroy(),
      [Symbol.asyncDispose]: async () => {
        if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
        await exited;
      },
    };
  }

  function startMessage(secretAccessKey = bucket.access.secretAccessKey) {
    const { accessKeyId } = bucket.access;
    const credentials = { accessKeyId, secretAccessKey };
    return { do: "start", ...FDS, credentials, resume: false, waits: false, mountedByUs: true };
  }

  test("SIGTERM publishes no file that is still open, unmounts and ends with 0", async () => {
    await using mount = await mountBucket(bucket);
    await using synced = await fs.open(join(mount.dir, "synced"), "w");
    await synced.write("all of it");
    await synced.sync();
    await using file = await fs.open(join(mount.dir, "unclosed"), "w");
    await file.write("half of it");
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    assert.deepEqual(await bucket.keys(), ["synced"]);
    assert.equal((await bucket.get("synced")).toString(), "all of it");
    assert(!(await fs.readFile("/proc/mounts", "utf8")).includes(mount.dir));
    await file.close().catch(() => undefined);
    await synced.close().catch(() => undefined);
  });

  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    test(`a second ${signal} changes nothing: the uploads of open files are removed`, async () => {
      await using proxy = await FaultProxy.start(bucket.access.endpoint, () => undefined);
      const removing = Promise.withResolvers<void>();
      const goOn = Promise.withResolvers<void>();
      proxy.hold = ({ method }) => {
        if (method !== "DELETE") return undefined;
        removing.resolve();
        return goOn.promise;
      };
      const args = ["--endpoint-url", proxy.url, "--part-size=5242880"];
      await using mount = await mountBucket(bucket, args);
      await using file = await fs.open(join(mount.dir, "unclosed"), "w");
      await file.write(Buffer.alloc(12 << 20, 7));
      mount.engine.child.kill(signal);
      await removing.promise;
      mount.engine.child.kill(signal);
      await delay(SIGNAL_TAKEN_MS);
      goOn.resolve();
      const ended = await mount.engine.ended;
      await file.close().catch(() => undefined);
      assert.deepEqual(ended, { status: 0, stderr: "" });
      assert.equal(await bucket.unfinishedUploads(), 0);
      assert(!(await bucket.keys()).includes("unclosed"));
    });
  }

  test("an engine that somebody starts by hand says who starts it, and ends", async () => {
    const words = [MOUNT[0], "engine", bucket.name, "/mnt"];
    const child = spawn(process.execPath, words, { stdio: ["ignore", "ignore", "pipe"] });
    const ended = once(child, "close");
    assert.match(await text(child.stderr), /^s3csi mount: an engine is started by `s3csi mount`/);
    assert.deepEqual(await ended, [2, null]);
  });

  test("unmounted from outside, it ends by itself", async () => {
    await using mount = await mountBucket(bucket);
    unmount(mount.dir, { detach: false });
    assert.equal((await mount.engine.ended).status, 0);
  });

  test("handed over: ready, then finish ends writes and leaves the connection alive", async () => {
    await using owner = await ownMount();
    await using engine = startEngine(owner);
    engine.tell(startMessage());
    assert.deepEqual(await engine.said(), { did: "ready" });
    await fs.writeFile(join(owner.dir, "handed"), "over");
    await using file = await fs.open(join(owner.dir, "open"), "w");
    await file.write("half of it");
    engine.tell({ do: "finish" });
    assert.deepEqual(await engine.said(), { did: "finished" });
    assert.deepEqual(await engine.exited, [0, null]);
    assert.equal((await bucket.get("handed")).toString(), "over");
    assert(!(await bucket.keys()).includes("open"));
    assert((await fs.readFile("/proc/mounts", "utf8")).includes(owner.dir), "still mounted");
    owner.leave(); // else this test's own close(2) would wait for an engine
    await file.close().catch(() => undefined);
  });

  test("handed over: unmounted everywhere, it finishes by itself", async () => {
    await using owner = await ownMount();
    await using engine = startEngine(owner);
    engine.tell(startMessage());
    assert.deepEqual(await engine.said(), { did: "ready" });
    owner.leave();
    assert.deepEqual(await engine.said(), { did: "finished" });
    assert.deepEqual(await engine.exited, [0, null]);
  });

  test("handed over: the parent's end is the engine's", async () => {
    await using owner = await ownMount();
    await using engine = startEngine(owner);
    engine.tell(startMessage());
    assert.deepEqual(await engine.said(), { did: "ready" });
    engine.hangUp();
    assert.deepEqual(await engine.exited, [0, null]);
  });

  // prettier-ignore
  const failing: [name: string, args: string[], message: () => object, kind: string, says: RegExp][] = [
    ["a wrong secret",     [],          () => startMessage("wrong"),         "denied",  /SignatureDoesNotMatch/],
    ["a bad option",       ["--wat"],   () => startMessage(),                "invalid", /--wat/],
    ["a malformed message", [],         () => ({ ...startMessage(), slotsFd: "x" }), "invalid", /slotsFd/],
  ];
  for (const [name, args, message, kind, says] of failing) {
    test(`handed over: ${name} is told precisely`, async () => {
      await using owner = await ownMount();
      await using engine = startEngine(owner, args);
      engine.tell(message());
      const told = await engine.said();
      assert.equal(told.did, "failed");
      assert.equal(told.kind, kind);
      assert.match(told.message, says);
      assert.deepEqual(await engine.exited, [kind === "denied" ? 4 : 2, null]);
    });
  }
});

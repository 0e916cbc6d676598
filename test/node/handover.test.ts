import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { createServer } from "node:net";
import type { Server } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import type { MountSpec } from "../../src/handover/messages.ts";
import type { MounterLink } from "../../src/handover/mounter-link.ts";
import { MOUNT_FDS } from "../../src/sys/mount-fds.ts";
import { unmount } from "../../src/sys/fuse-mount.ts";
import { sendWithFds } from "../../src/sys/unix-socket.ts";
import { TestBucket } from "../engine/test-bucket.ts";
import { MounterProcess, descriptorsOf, mountSpec, ownMount } from "./mounter-process.ts";

const run = promisify(execFile);
const PERMANENT_WITHIN_MS = 10_000;
const FIRST = { resume: false };
const soon = () => AbortSignal.timeout(15_000);

/** Asks first, as the node service does: the end of the last mount is the mounter's own too. */
async function takeDown(mount: { readonly dir: string; readonly link: MounterLink }) {
  const finished = mount.link.finish(soon());
  unmount(mount.dir, { detach: true });
  await finished;
}

describe("a mounter that is handed a mount", () => {
  let bucket: TestBucket;
  let silent: Server;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("there", "before");
    silent = createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
  });
  after(async () => {
    silent.close();
    await bucket[Symbol.asyncDispose]();
  });

  /** An endpoint that takes connections and says nothing. */
  function silentEndpoint(): string {
    const address = silent.address();
    assert(address !== null && typeof address === "object");
    return `--endpoint-url=http://127.0.0.1:${address.port}`;
  }

  /** Mounted, handed over and served. */
  async function served(mounter: MounterProcess) {
    const mount = await ownMount();
    const link = mounter.link();
    await link.mount(mountSpec(bucket), mount.fds, FIRST, soon());
    mount.closeFds();
    return { ...mount, link, [Symbol.asyncDispose]: () => mount[Symbol.asyncDispose]() };
  }

  test("serves it; finish ends with 0: closed files are in S3, open ones are not", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await served(mounter);
    assert.equal(await fs.readFile(join(mount.dir, "there"), "utf8"), "before");
    await fs.writeFile(join(mount.dir, "closed"), "and stored");
    await using open = await fs.open(join(mount.dir, "open"), "w");
    await open.write("half of it");
    unmount(mount.dir, { detach: true });
    await mount.link.finish(soon());
    assert.equal(await mounter.ended, 0);
    assert.equal((await bucket.get("closed")).toString(), "and stored");
    assert(!(await bucket.keys()).includes("open"));
    assert(!mounter.output.includes(bucket.access.secretAccessKey), "a key in the log");
    await open.close().catch(() => {});
  });

  test("finish ends it too while another namespace holds a copy of the mount", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await served(mounter);
    const holder = spawn("unshare", ["-m", "--propagation", "private", "sh", "-c", "echo in; cat"]);
    const gone = once(holder, "exit");
    try {
      await once(holder.stdout, "data");
      unmount(mount.dir, { detach: true });
      const held = await fs.readFile(`/proc/${holder.pid}/mountinfo`, "utf8");
      assert(held.includes(mount.dir), "the other namespace has its copy");
      assert.equal(mounter.child.exitCode, null);
      await mount.link.finish(soon());
      assert.equal(await mounter.ended, 0);
    } finally {
      holder.kill("SIGKILL");
      await gone;
    }
  });

  test("unmounted everywhere, it ends by itself with 0", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await served(mounter);
    unmount(mount.dir, { detach: false });
    assert.equal(await mounter.ended, 0);
  });

  // prettier-ignore
  const failing: [name: string, change: () => Partial<MountSpec>, kind: string, says: RegExp][] = [
    ["a bucket that is not there", () => ({ bucket: "no-such-bucket" }), "absent", /^bucket no-such-bucket at http.*NoSuchBucket/],
    ["a key that is not known",    () => ({ credentials: { accessKeyId: "nobody", secretAccessKey: "x" } }), "denied", /^bucket test-bucket at .*(InvalidAccessKeyId|AccessDenied|UserNotFound)/],
    ["a wrong secret",             () => ({ credentials: { accessKeyId: bucket.access.accessKeyId, secretAccessKey: "wrong" } }), "denied", /SignatureDoesNotMatch/],
    ["no keys",                    () => ({ credentials: null }), "denied", /no credentials/],
    ["an endpoint that is away",   () => ({ args: ["--endpoint-url=http://127.0.0.1:9"] }), "remote", /can't reach the endpoint 127\.0\.0\.1:9: .*ECONNREFUSED/],
    ["an endpoint that is silent", () => ({ args: [silentEndpoint()] }), "timeout", /at http:\/\/127\.0\.0\.1:\d+: no answer within 5 s$/],
    ["an option that is not one",  () => ({ args: ["--turbo"] }), "invalid", /Unknown option '--turbo'/],
    ["an option of Node's",        () => ({ args: ["--require=/dev/null", "--inspect"] }), "invalid", /Unknown option '--require'/],
    ["words instead of options",   () => ({ args: ["-e", "process.exit(7)"] }), "invalid", /'-e'|BUCKET and DIRECTORY/],
    ["a very long option",         () => ({ args: [`--${"x".repeat(20_000)}`] }), "invalid", /Unknown option '--xxx/],
  ];
  for (const [name, change, kind, says] of failing) {
    test(`${name}: told precisely and soon, and the next, right try is served`, async () => {
      await using mounter = await MounterProcess.start();
      await using mount = await ownMount();
      using link = mounter.link();
      const startedMs = performance.now();
      await assert.rejects(link.mount(mountSpec(bucket, change()), mount.fds, FIRST, soon()), {
        name: "Failure",
        kind: new RegExp(`^${kind}$`),
        message: says,
      });
      assert(performance.now() - startedMs < PERMANENT_WITHIN_MS);
      assert.deepEqual(mounter.enginePids, []);
      await link.mount(mountSpec(bucket), mount.fds, FIRST, soon());
      mount.closeFds();
      assert.equal(await fs.readFile(join(mount.dir, "there"), "utf8"), "before");
      await link.finish(soon());
      assert.equal(await mounter.ended, 0);
    });
  }

  test("a second mount is busy, on the same connection or another; the first goes on", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await served(mounter);
    await using other = await ownMount();
    const held = descriptorsOf(mounter.pid);
    const again = mountSpec(bucket);
    await assert.rejects(mount.link.mount(again, other.fds, FIRST, soon()), { kind: "busy" });
    {
      using link = mounter.link();
      await assert.rejects(link.mount(again, other.fds, FIRST, soon()), { kind: "busy" });
      assert.equal(descriptorsOf(mounter.pid), held + 1, "the connection, and no descriptor");
    }
    assert.equal(await fs.readFile(join(mount.dir, "there"), "utf8"), "before");
  });

  test("descriptors that no one takes are closed: wrong number, no request, a finish", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await ownMount();
    const { fd, socket } = mounter.rawConnection();
    const [fuse = -1] = mount.fds;
    const answer = async (line: string, fds: readonly number[]) => {
      const data = once(socket, "data");
      sendWithFds(fd, Buffer.from(`${line}\n`), fds);
      return JSON.parse(String((await data)[0]));
    };
    const request = JSON.stringify({ do: "mount", ...FIRST, ...mountSpec(bucket) });
    const first = await answer(request, []);
    assert.deepEqual(
      [first.kind, first.message],
      ["invalid", "0 descriptors came, not fuse, slots, journal, spool"],
    );
    const held = descriptorsOf(mounter.pid);
    for (const fds of [[fuse], [fuse, fuse, fuse], Array.from({ length: 16 }, () => fuse)]) {
      assert.equal((await answer(request, fds)).kind, "invalid");
      assert.equal((await answer("not JSON", fds)).kind, "invalid");
      assert.equal((await answer('{"do":"format"}', fds)).kind, "invalid");
    }
    assert.equal(descriptorsOf(mounter.pid), held);
    assert.equal((await answer('{"do":"finish"}', [fuse])).did, "finished");
    socket.destroy();
    assert.equal(await mounter.ended, 0);
  });

  test("a request in pieces keeps its descriptors; what is dropped half-way leaves none", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await ownMount();
    const held = descriptorsOf(mounter.pid);
    const line = Buffer.from(
      `${JSON.stringify({ do: "mount", ...FIRST, ...mountSpec(bucket) })}\n`,
    );
    const half = mounter.rawConnection();
    sendWithFds(half.fd, line.subarray(0, 40), mount.fds);
    half.socket.destroy();
    const whole = mounter.rawConnection();
    sendWithFds(whole.fd, line.subarray(0, 40), mount.fds);
    sendWithFds(whole.fd, line.subarray(40), []);
    const [answer] = await once(whole.socket, "data");
    assert.equal(String(answer), '{"did":"ready"}\n');
    mount.closeFds();
    assert.equal(await fs.readFile(join(mount.dir, "there"), "utf8"), "before");
    const expected = held + MOUNT_FDS.length + 2; // the connection and the engine's channel
    assert(descriptorsOf(mounter.pid) <= expected, "descriptors of the half request");
    whole.socket.destroy();
  });

  test("garbage, endless lines and callers that leave do not end it", async () => {
    await using mounter = await MounterProcess.start();
    const endless = mounter.rawConnection();
    const closed = new Promise((resolve) => void endless.socket.once("close", resolve));
    endless.socket.write(Buffer.alloc(400_000, "x"));
    endless.socket.resume();
    await closed;
    for (let caller = 0; caller < 6; caller += 1) mounter.rawConnection().socket.destroy();
    const garbage = mounter.rawConnection();
    const answers = once(garbage.socket, "data");
    garbage.socket.write("\0\xff{}[]\n");
    assert.match(String((await answers)[0]), /"kind":"invalid"/);
    garbage.socket.destroy();
    await using mount = await served(mounter);
    assert.equal(await fs.readFile(join(mount.dir, "there"), "utf8"), "before");
  });

  test("who is not root is refused", async () => {
    await using mounter = await MounterProcess.start();
    await fs.chmod(mounter.socketPath, 0o777);
    const script =
      'const s = require("net").connect(process.argv[1]);' +
      's.on("connect", () => s.write(\'{"do":"finish"}\\n\'));' +
      's.on("data", (d) => console.log("answered", String(d)));' +
      's.on("close", () => console.log("closed")); s.on("error", () => {});';
    const ids = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    const args = [...ids, "/usr/bin/env", "node", "-e", script, mounter.socketPath];
    const { stdout } = await run("setpriv", args);
    assert.equal(stdout, "closed\n");
    assert.equal(mounter.child.exitCode, null);
    assert.match(mounter.output, /"uid":65534.*refused/);
    await using mount = await served(mounter);
    assert.equal(await fs.readFile(join(mount.dir, "there"), "utf8"), "before");
  });

  test("SIGTERM: ends with 0 before a mount, stays with one", async () => {
    await using idle = await MounterProcess.start();
    idle.signal("SIGTERM");
    assert.equal(await idle.ended, 0);

    await using mounter = await MounterProcess.start();
    await using mount = await served(mounter);
    mounter.signal("SIGTERM");
    await fs.writeFile(join(mount.dir, "after SIGTERM"), "still served");
    assert.equal(mounter.child.exitCode, null);
    await takeDown(mount);
    assert.equal(await mounter.ended, 0);
    assert.equal((await bucket.get("after SIGTERM")).toString(), "still served");
  });

  test("SIGTERM while a first start fails ends it with 0", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await ownMount();
    using link = mounter.link();
    const args = [silentEndpoint()];
    const failed = link.mount(mountSpec(bucket, { args }), mount.fds, FIRST, soon());
    failed.catch(() => {});
    while (mounter.enginePids.length === 0) await new Promise(setImmediate);
    mounter.signal("SIGTERM");
    await assert.rejects(failed, { name: "Failure" });
    assert.equal(await mounter.ended, 0);
  });

  test("finish while an engine starts: nothing was acknowledged, so it ends with 0", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await ownMount();
    using first = mounter.link();
    const args = [silentEndpoint()];
    const failed = first.mount(mountSpec(bucket, { args }), mount.fds, FIRST, soon());
    failed.catch(() => {});
    while (mounter.enginePids.length === 0) await new Promise(setImmediate);
    using second = mounter.link();
    const startedMs = performance.now();
    await second.finish(soon());
    assert(performance.now() - startedMs < 1_000, "it does not wait for what is not wanted");
    await assert.rejects(failed, { name: "Failure" });
    assert.equal(await mounter.ended, 0);
  });

  test("an engine that is killed is replaced: the mount and an open file go on", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await served(mounter);
    await using open = await fs.open(join(mount.dir, "over-a-kill"), "w");
    await open.write("before, ");
    const [engine = -1] = mounter.enginePids;
    process.kill(engine, "SIGKILL");
    await open.write("after");
    assert.equal(await fs.readFile(join(mount.dir, "there"), "utf8"), "before");
    assert.notDeepEqual(mounter.enginePids, [engine]);
    await open.sync();
    unmount(mount.dir, { detach: true });
    await mount.link.finish(soon());
    assert.equal(await mounter.ended, 0);
    assert.equal((await bucket.get("over-a-kill")).toString(), "before, after");
    await open.close().catch(() => {});
  });

  test("SIGHUP replaces the engine; whoever uses the mount does not notice", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await served(mounter);
    const [engine] = mounter.enginePids;
    mounter.signal("SIGHUP");
    while (mounter.enginePids[0] === engine) await new Promise(setImmediate);
    assert.equal(await fs.readFile(join(mount.dir, "there"), "utf8"), "before");
    await takeDown(mount);
    assert.equal(await mounter.ended, 0);
  });

  test("a mounter that is killed takes the mount with it: ENOTCONN", async () => {
    await using mounter = await MounterProcess.start();
    await using mount = await served(mounter);
    await mounter.killAll();
    // The first of the two if it was asked while the engine was dying.
    await assert.rejects(fs.readdir(mount.dir), /ECONNABORTED|ENOTCONN/);
    await assert.rejects(mount.link.finish(soon()), { kind: "remote" });
  });
});

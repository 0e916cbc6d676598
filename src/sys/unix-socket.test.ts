import assert from "node:assert/strict";
import {
  closeSync,
  mkdtempSync,
  readSync,
  rmSync,
  writeFileSync,
  openSync,
  readlinkSync,
} from "node:fs";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { release, tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { bind } from "./libc.ts";
import {
  acceptUnix,
  connectUnix,
  drop,
  dropSocket,
  listenUnix,
  peerCredentialsOf,
  receiveWithFds,
  refuseDescriptors,
  sendWithFds,
  untilReadable,
} from "./unix-socket.ts";

const dir = mkdtempSync(join(tmpdir(), "s3csi-socket-"));
after(() => rmSync(dir, { recursive: true }));

async function pair(name: string) {
  const listener = listenUnix(join(dir, name));
  const client = connectUnix(join(dir, name));
  assert(await untilReadable(listener, 1000));
  const server = acceptUnix(listener);
  closeSync(listener);
  return { client, server };
}

test("descriptors arrive as descriptors of the same file", async () => {
  const { client, server } = await pair("fds");
  writeFileSync(join(dir, "file"), "content");
  const file = openSync(join(dir, "file"), "r");
  sendWithFds(client, Buffer.from("take this"), [file, file]);
  closeSync(file);
  assert(await untilReadable(server, 1000));
  const { bytes, fds } = receiveWithFds(server, 4096);
  assert.equal(bytes.toString(), "take this");
  assert.equal(fds.length, 2);
  const [first = -1, second = -1] = fds;
  assert.equal(readlinkSync(`/proc/self/fd/${second}`), join(dir, "file"));
  const read = Buffer.alloc(7);
  readSync(first, read);
  assert.equal(read.toString(), "content");
  for (const fd of [first, second, client, server]) closeSync(fd);
});

test("the peer's credentials are those of this process", async () => {
  const { client, server } = await pair("peer");
  const want = { pid: process.pid, uid: process.getuid?.() };
  assert.deepEqual(peerCredentialsOf(client), want);
  assert.deepEqual(peerCredentialsOf(server), want);
  closeSync(client);
  closeSync(server);
});

test("nothing to read ends with the time-out; a closed peer reads as empty", async () => {
  const { client, server } = await pair("end");
  assert.equal(await untilReadable(server, 10), false);
  closeSync(client);
  assert.equal(await untilReadable(server, 1000), true);
  assert.equal(receiveWithFds(server, 16).bytes.length, 0);
  closeSync(server);
});

test("more descriptors than allowed are refused and closed", async () => {
  const { client, server } = await pair("many");
  sendWithFds(
    client,
    Buffer.from("x"),
    Array.from({ length: 40 }, () => client),
  );
  assert(await untilReadable(server, 1000));
  assert.throws(() => receiveWithFds(server, 16), /more descriptors/);
  closeSync(client);
  closeSync(server);
});

const LINGER_SECONDS = 5;
const MORE_THAN_FITS_BYTES = 32 << 20;
const setOption = bind(
  "int setsockopt(int fd, int level, int name, const void *value, uint32_t size)",
);

/**
 * Sends a connection whose last close waits until its peer has read what it never will; the only
 * copy is then on its way to the other end.
 */
async function sendLingering(to: number, bytes: string): Promise<Disposable> {
  const server = createServer({ pauseOnConnect: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const both = [once(server, "connection"), once(socket, "connect")] as const;
  const [[near]] = (await Promise.all(both)) as unknown as [[Socket]];
  const { fd } = (socket as unknown as { _handle: { fd: number } })._handle;
  const linger = Buffer.alloc(8);
  linger.writeInt32LE(1, 0);
  linger.writeInt32LE(LINGER_SECONDS, 4);
  assert.equal(setOption(fd, 1 /* SOL_SOCKET */, 13 /* SO_LINGER */, linger, linger.length), 0);
  socket.write(Buffer.alloc(MORE_THAN_FITS_BYTES));
  sendWithFds(to, Buffer.from(bytes), [fd]);
  const closed = once(socket, "close");
  socket.destroy();
  await closed;
  return {
    [Symbol.dispose]() {
      near.destroy();
      server.close();
    },
  };
}

/** Neither the work nor anything after it in this thread waits for a close. */
async function assertQuick(work: () => void): Promise<void> {
  const startedMs = performance.now();
  work();
  for (let turn = 0; turn < 10; turn += 1) await nextTurn();
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs < (LINGER_SECONDS * 1000) / 2, `took ${tookMs} ms`);
}

test("a descriptor whose close takes long is closed without waiting", async () => {
  const { client, server } = await pair("linger");
  using _far = await sendLingering(client, "x");
  const { fds } = receiveWithFds(server, 16);
  assert.equal(fds.length, 1);
  await assertQuick(() => drop(fds));
  closeSync(client);
  closeSync(server);
});

test("nor does a socket take long in which such a one was left", async () => {
  const { client, server } = await pair("linger-unread");
  sendWithFds(client, Buffer.alloc(100_000), []);
  using _far = await sendLingering(client, "x");
  await assertQuick(() => dropSocket(server));
  closeSync(client);
});

test("where the kernel can, a socket takes in no descriptors at all", async (t) => {
  const [major = 0, minor = 0] = release().split(".").map(Number);
  if (major < 6 || (major === 6 && minor < 16)) return t.skip("Linux can do that since 6.16");
  const { client, server } = await pair("refusing");
  refuseDescriptors(server);
  assert.throws(() => sendWithFds(client, Buffer.from("x"), [client]), { code: "EPERM" });
  sendWithFds(client, Buffer.from("y"), []);
  assert.equal(receiveWithFds(server, 16).bytes.toString(), "y");
  closeSync(client);
  closeSync(server);
});

test("a path that does not fit into a socket address is an error that names it", () => {
  assert.throws(() => connectUnix(`/${"x".repeat(108)}`), { code: "ENAMETOOLONG" });
});

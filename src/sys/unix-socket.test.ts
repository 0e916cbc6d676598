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
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import {
  acceptUnix,
  connectUnix,
  listenUnix,
  peerCredentialsOf,
  receiveWithFds,
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

test("a path that does not fit into a socket address is an error that names it", () => {
  assert.throws(() => connectUnix(`/${"x".repeat(108)}`), { code: "ENAMETOOLONG" });
});

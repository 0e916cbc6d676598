import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openDevice } from "./device-stream.ts";

/** A FIFO that is open at both ends stands for the device: any file with poll(2) does. */
function openFifo(t: { after(work: () => void): void }): number {
  const dir = mkdtempSync(join(tmpdir(), "s3csi-device-"));
  execFileSync("mkfifo", [join(dir, "fifo")]);
  const fd = openSync(join(dir, "fifo"), "r+");
  t.after(() => {
    closeSync(fd);
    rmSync(dir, { recursive: true });
  });
  return fd;
}

test("each message goes where it was told, none while it is stopped", async (t) => {
  const fd = openFifo(t);
  const places = [Buffer.alloc(16), Buffer.alloc(16), Buffer.alloc(16)];
  let asked = 0;
  let [told, tell] = [Promise.withResolvers<string>(), true];
  const stream = openDevice(fd, {
    buffer: () => places[asked++] ?? Buffer.alloc(0),
    callback: (count, bytes) => {
      told.resolve(Buffer.from(bytes.subarray(0, count)).toString());
      return tell;
    },
  });
  t.after(() => stream.destroy());
  writeSync(fd, "one");
  assert.equal(await told.promise, "one");
  told = Promise.withResolvers();
  tell = false;
  writeSync(fd, "two");
  assert.equal(await told.promise, "two");
  told = Promise.withResolvers();
  writeSync(fd, "three");
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve))); // a turn of the loop
  assert.equal(places[2]?.toString("latin1", 0, 5), "\0\0\0\0\0");
  stream.resume();
  assert.equal(await told.promise, "three");
  const texts = places.map((place) => place.toString("latin1").replaceAll("\0", ""));
  assert.deepEqual(texts, ["one", "two", "three"]);
});

test("the end of the stream closes its own copy alone", async (t) => {
  const fd = openFifo(t);
  const stream = openDevice(fd, { buffer: () => Buffer.alloc(8), callback: () => true });
  const closed = new Promise((resolve) => stream.once("close", resolve));
  stream.destroy();
  await closed;
  assert.equal(writeSync(fd, "still open"), 10);
});

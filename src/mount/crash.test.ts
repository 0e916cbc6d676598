import assert from "node:assert/strict";
import { constants } from "node:os";
import { test } from "node:test";
import { ROOT_NODEID } from "../engine/inode-table.ts";
import { OPCODE } from "../fuse/opcode.ts";
import { readUint64 } from "../fuse/request.ts";
import { ErrnoError } from "./test-kernel.ts";
import { TestWorld } from "./test-world.ts";
import type { WorldPlan } from "./test-world.ts";

const O_WRONLY_TRUNC = 0o1001;
const O_RDWR = 0o2;
const FOPEN_DIRECT_IO = 1 << 0;
const { errno } = constants;
const INSTANTS_MAX = 1_000;

/** Once for each instant at which the engine can die, on both kinds of kernel. */
async function atEveryInstant(
  script: (world: TestWorld) => Promise<void>,
  plan: Partial<WorldPlan> = {},
): Promise<void> {
  for (const resends of [false, true]) {
    for (let instants = 0; ; instants++) {
      const world = new TestWorld({ lives: [instants], resends, areaBytes: 1 << 14, ...plan });
      await world.settles(script(world));
      await world.end();
      world.checkReferences();
      assert.equal(world.bucket.unfinishedUploads, 0);
      assert.equal(world.spoolBytes, 0);
      if (world.deaths === 0) break;
      assert(instants < INSTANTS_MAX);
    }
  }
}

test("an unlink that comes again leaves what another client has put there since", async () => {
  const theirs = Buffer.from("theirs");
  let isPut = false;
  const onDeath = (bucket: TestWorld["bucket"]) => {
    isPut = bucket.body("key") === undefined;
    if (isPut) void bucket.put("key", theirs);
  };
  await atEveryInstant(
    async ({ bucket, program, deaths }) => {
      isPut = false;
      if (deaths === 0) await bucket.put("key", Buffer.from("ours"));
      await program.lookup(ROOT_NODEID, "key");
      await program.unlink(ROOT_NODEID, "key");
      assert.equal(bucket.body("key")?.toString(), isPut ? "theirs" : undefined);
    },
    { onDeath },
  );
});

const isAbsent = (error: unknown) => error instanceof ErrnoError && error.errno === errno.ENOENT;

test("an unlink that found nothing deletes nothing when it comes again", async () => {
  await atEveryInstant(
    async (world) => {
      const { bucket, program } = world;
      const failed = await program.unlink(ROOT_NODEID, "key").catch((error: unknown) => error);
      await world.end(); // also what the next engine finds in the slots
      if (failed === undefined) assert.deepEqual(bucket.keys, []);
      else assert(isAbsent(failed) && bucket.keys.length === world.deaths);
    },
    { onDeath: (bucket) => void bucket.put("key", Buffer.from("theirs")) },
  );
});

test("a directory that S3 has got ends with its last object", async () => {
  await atEveryInstant(async ({ bucket, program }) => {
    await program.mkdir(ROOT_NODEID, "dir");
    await bucket.put("dir/key", Buffer.from("theirs"));
    await program.lookup(ROOT_NODEID, "dir");
    await bucket.delete("dir/key");
    await assert.rejects(program.lookup(ROOT_NODEID, "dir"), isAbsent);
  });
});

test("rmdir deletes the marker of an empty directory, and no file that comes after it", async () => {
  let isPut = false;
  const onDeath = (bucket: TestWorld["bucket"]) => {
    isPut = bucket.body("dir/") === undefined;
    // Another marker would have the same ETag, so that a repeated DELETE could hit it.
    if (isPut) void bucket.put("dir/file", Buffer.alloc(0));
  };
  await atEveryInstant(
    async ({ bucket, program, deaths }) => {
      isPut = false;
      if (deaths === 0) await bucket.put("dir/", Buffer.alloc(0));
      await program.lookup(ROOT_NODEID, "dir");
      await program.rmdir(ROOT_NODEID, "dir");
      assert.deepEqual(bucket.keys, isPut ? ["dir/file"] : []);
    },
    { onDeath },
  );
});

test("a tree is removed from its leaves to its root", async () => {
  await atEveryInstant(async (world) => {
    const { bucket, program } = world;
    for (const key of ["a/b/c", "a/b/d", "a/e"]) await bucket.put(key, Buffer.from(key));
    const top = await program.lookup(ROOT_NODEID, "a");
    const inner = await program.lookup(top, "b");
    for (const name of await program.list(inner)) await program.unlink(inner, name);
    world.forgetAll(); // an expired dentry goes with its last user
    await program.rmdir(await program.walk(["a"]), "b");
    await program.unlink(await program.walk(["a"]), "e");
    await program.rmdir(ROOT_NODEID, "a");
    assert.deepEqual(bucket.keys, []);
    await assert.rejects(program.lookup(ROOT_NODEID, "a"), isAbsent);
  });
});

test("a create that comes again is the same file, and it can be replaced afterwards", async () => {
  await atEveryInstant(async ({ bucket, program }) => {
    const { nodeid, handle } = await program.create(ROOT_NODEID, "key");
    assert.equal(handle, 1, "no handle was lost on the way");
    await program.writeAt(nodeid, handle, 0, "one");
    await program.flush(nodeid, handle);
    await program.release(nodeid, handle);
    const reader = await program.open(nodeid, 0);
    await program.release(nodeid, reader);
    const writer = await program.open(nodeid, O_WRONLY_TRUNC);
    await program.writeAt(nodeid, writer, 0, "another");
    await program.flush(nodeid, writer);
    await program.release(nodeid, writer);
    assert.equal(bucket.body("key")?.toString(), "another");
  });
});

test("an open for reading and writing that comes again bypasses the page cache again", async () => {
  const struct = Buffer.alloc(8);
  struct.writeUInt32LE(O_RDWR, 0);
  await atEveryInstant(async ({ bucket, kernel, program }) => {
    if (bucket.keys.length === 0) await bucket.put("key", Buffer.from("theirs"));
    const nodeid = await program.lookup(ROOT_NODEID, "key");
    const opened = await kernel.request(OPCODE.OPEN, nodeid, struct);
    assert.equal(opened.readUInt32LE(8) & FOPEN_DIRECT_IO, FOPEN_DIRECT_IO);
    await program.release(nodeid, readUint64(opened, 0));
  });
});

test("a directory goes on where it was: no name twice, none left out", async () => {
  await atEveryInstant(async ({ bucket, program }) => {
    const names = Array.from(
      { length: 12 },
      (_, index) => `name-${String(index).padStart(2, "0")}`,
    );
    for (const name of names) await bucket.put(`dir/${name}`, Buffer.from(name));
    assert.deepEqual(await program.list(await program.lookup(ROOT_NODEID, "dir")), names);
  });
});

test("a large file is written once, wherever it was interrupted", async () => {
  await atEveryInstant(async ({ bucket, program }) => {
    const content = "0123456789".repeat(12);
    await program.write(ROOT_NODEID, "key", content, false);
    assert.equal(bucket.body("key")?.toString(), content);
  });
});

test("a file that another process closes last is read back whole", async () => {
  const child = { pid: 5_000_099, lockOwner: 0xabcd_2002 };
  await atEveryInstant(async ({ bucket, program }) => {
    const { nodeid, handle } = await program.create(ROOT_NODEID, "key");
    await program.flush(nodeid, handle); // a shell closes the descriptor that it has duplicated
    await program.writeAt(nodeid, handle, 0, "by a child", child);
    await program.flush(nodeid, handle, child);
    await program.release(nodeid, handle);
    assert.equal(await program.read(await program.lookup(ROOT_NODEID, "key")), "by a child");
    assert.equal(bucket.body("key")?.toString(), "by a child");
  });
});

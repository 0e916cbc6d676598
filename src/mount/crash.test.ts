import assert from "node:assert/strict";
import { constants } from "node:os";
import { test } from "node:test";
import { ROOT_NODEID } from "../engine/inode-table.ts";
import { ErrnoError } from "./test-kernel.ts";
import { TestWorld } from "./test-world.ts";
import type { WorldPlan } from "./test-world.ts";

const O_WRONLY_TRUNC = 0o1001;
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

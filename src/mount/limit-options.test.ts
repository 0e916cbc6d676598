import assert from "node:assert/strict";
import { test } from "node:test";
import { inMemoryBytesOf, memoryOf } from "./limit-options.ts";

const MIB = 1 << 20;
const NONE = {
  target: undefined,
  inodeLimit: undefined,
  writePartBytes: undefined,
  hasCache: false,
};

test("memory options are read, and follow the container's limit", () => {
  assert.equal(memoryOf({ ...NONE, target: "100" }, undefined).readBytes, 100 * MIB);
  assert.equal(memoryOf({ ...NONE, inodeLimit: "1000" }, undefined).inodes, 1000);
  assert.equal(memoryOf({ ...NONE, target: "100" }, 1024 * MIB).readBytes, 100 * MIB);
  assert(memoryOf({ ...NONE, target: "100" }, 128 * MIB).readBytes < 20 * MIB);
  for (const wrong of ["63", "1048577", "x", ""]) {
    assert.throws(() => memoryOf({ ...NONE, target: wrong }), /memory-target/);
  }
  assert.throws(() => memoryOf({ ...NONE, inodeLimit: "99" }), /inode-limit/);
});

test("a cache in memory is the container's memory too, and leaves the engine the rest", () => {
  const options = { ...NONE, hasCache: true };
  const shared = memoryOf({ ...options, cacheInMemoryBytes: 256 * MIB }, 512 * MIB);
  assert.deepEqual(shared, memoryOf(options, 256 * MIB));
  assert.deepEqual(
    memoryOf({ ...options, cacheInMemoryBytes: 256 * MIB }, undefined),
    memoryOf(options, undefined),
  );
  assert.equal(inMemoryBytesOf({ directory: "/dev/shm", limitBytes: 7 * MIB }), 7 * MIB);
  assert.equal(inMemoryBytesOf({ directory: "/proc", limitBytes: 7 * MIB }), 0);
  assert.equal(inMemoryBytesOf({ directory: "/no/such/directory", limitBytes: 7 * MIB }), 0);
  assert.equal(inMemoryBytesOf(undefined), 0);
});

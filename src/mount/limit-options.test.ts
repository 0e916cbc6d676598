import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { memoryTargetOf } from "./limit-options.ts";

const MIB = 1 << 20;

test("the memory target follows the container's limit; one too small to work is refused", () => {
  assert.equal(memoryTargetOf(undefined, 512 * MIB), 128 * MIB);
  assert.equal(memoryTargetOf(undefined, 128 * MIB), 64 * MIB);
  assert.equal(memoryTargetOf("100", 512 * MIB), 100 * MIB);
  assert.throws(
    () => memoryTargetOf(undefined, 64 * MIB),
    (error) =>
      error instanceof Failure &&
      error.message === "a memory limit of 64 MiB is too small: at least 96 MiB are needed",
  );
});

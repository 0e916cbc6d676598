import assert from "node:assert/strict";
import { test } from "node:test";
import { OPTION_TABLE } from "../src/mount/option-table.ts";
import { OPTIONS_OF_OURS } from "../src/volume/engine.ts";
import { MOUNT_S3_FLAGS, MOUNT_S3_VALUES } from "./node/mount-s3-options.ts";

/** Known to builds of mount-s3 that nobody has: what is there says whether it is known. */
const OF_SPECIAL_BUILDS = ["cache-block-size"];

test("what is refused with mount-s3 is what our engine has and that does not", () => {
  const theirs = MOUNT_S3_VALUES.union(MOUNT_S3_FLAGS).union(new Set(OF_SPECIAL_BUILDS));
  const ours = Object.keys(OPTION_TABLE).filter((name) => !theirs.has(name));
  assert.deepEqual(ours.toSorted(), OPTIONS_OF_OURS.toSorted());
});

test("an option takes a value there if it does here", () => {
  for (const [name, { type }] of Object.entries(OPTION_TABLE)) {
    const here = type === "string";
    if (MOUNT_S3_VALUES.has(name) || MOUNT_S3_FLAGS.has(name)) {
      assert.equal(MOUNT_S3_VALUES.has(name), here, name);
    }
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../src/base/failure.ts";
import { readMountOptions } from "../src/mount/mount-options.ts";
import { OPTION_TABLE, OPTIONS } from "../src/mount/option-table.ts";
import { OPTIONS_OF_OURS } from "../src/volume/engine.ts";
import { planMount } from "../src/volume/mount-options.ts";
import { MOUNT_S3_FLAGS, MOUNT_S3_VALUES } from "./node/mount-s3-options.ts";

/** Known to builds of mount-s3 that nobody has: what is there says whether it is known. */
const OF_SPECIAL_BUILDS = ["cache-block-size"];

test("what is refused with mount-s3 is what our engine has and that does not", () => {
  const theirs = MOUNT_S3_VALUES.union(MOUNT_S3_FLAGS).union(new Set(OF_SPECIAL_BUILDS));
  const ours = Object.keys(OPTION_TABLE).filter((name) => !theirs.has(name));
  assert.deepEqual(ours.toSorted(), OPTIONS_OF_OURS.toSorted());
});

/** Each with a reason; all other options of mount-s3 leave a volume mountable. */
const FAILING: ReadonlyMap<string, RegExp> = new Map([
  ["ca-bundle", /authorities are the driver's setting/],
  ["options", /write them as options of their own/],
  ["sse-kms-key-id", /the ARN of a key is expected/],
]);

for (const name of [...MOUNT_S3_VALUES, ...MOUNT_S3_FLAGS]) {
  const failing = FAILING.get(name);
  test(`mount-s3's option ${name} in a volume: ${failing ? "refused" : "mounted"}`, () => {
    const right = OPTIONS.get(name)?.right ?? "x";
    const mount = () => {
      const { args } = planMount([MOUNT_S3_VALUES.has(name) ? `${name}=${right}` : name], "");
      return readMountOptions(["bucket", "/mnt", ...args], {});
    };
    if (failing === undefined) assert(mount() !== undefined);
    else assert.throws(mount, (error) => error instanceof Failure && failing.test(error.message));
  });
}

test("an option takes a value there if it does here", () => {
  for (const [name, { type }] of Object.entries(OPTION_TABLE)) {
    const here = type === "string";
    if (MOUNT_S3_VALUES.has(name) || MOUNT_S3_FLAGS.has(name)) {
      assert.equal(MOUNT_S3_VALUES.has(name), here, name);
    }
  }
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "./flags.ts";
import { absolutePath, absolutePathIfAny, oneOf } from "./plain-schema.ts";

const FLAGS = {
  dir: { schema: absolutePath("/there"), placeholder: "DIR", help: "where" },
  size: { schema: oneOf(["small", "large"], "small"), placeholder: "SIZE", help: "how much" },
};

test("a schema by hand takes what is right and has a default", () => {
  assert.deepEqual({ ...readConfig(FLAGS, [], {}) }, { dir: "/there", size: "small" });
  const given = readConfig(FLAGS, ["--dir=/here"], { S3CSI_SIZE: "large" });
  assert.deepEqual({ ...given }, { dir: "/here", size: "large" });
});

test("and names what is wrong, with what would be right", () => {
  const argv = ["--dir=here", "--size=huge"];
  const wrong = () => readConfig(FLAGS, argv, {});
  assert.throws(wrong, /--dir \(S3CSI_DIR\): "here": a path that starts with \/ is right/);
  assert.throws(wrong, /--size \(S3CSI_SIZE\): "huge": one of small, large is right/);
});

test("a path that need not be there is right or absent", () => {
  const flags = { file: { schema: absolutePathIfAny(), placeholder: "FILE", help: "which" } };
  assert.deepEqual({ ...readConfig(flags, [], {}) }, { file: undefined });
  assert.deepEqual({ ...readConfig(flags, ["--file=/a"], {}) }, { file: "/a" });
  assert.throws(() => readConfig(flags, ["--file=a"], {}), /"a": a path that starts with \//);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "./flags.ts";
import { absolutePath, absolutePathIfAny, oneOf } from "./plain-schema.ts";

const FLAGS = {
  dir: { schema: absolutePath("/there"), placeholder: "DIR", help: "where" },
  size: { schema: oneOf(["small", "large"], "small"), placeholder: "SIZE", help: "how much" },
};

test("a plain schema accepts valid values and has a default", () => {
  assert.deepEqual({ ...readConfig(FLAGS, [], {}) }, { dir: "/there", size: "small" });
  const given = readConfig(FLAGS, ["--dir=/here"], { S3CSI_SIZE: "large" });
  assert.deepEqual({ ...given }, { dir: "/here", size: "large" });
});

test("an error names the flag, the value and what is accepted", () => {
  const argv = ["--dir=here", "--size=huge"];
  const wrong = () => readConfig(FLAGS, argv, {});
  assert.throws(wrong, /--dir \(S3CSI_DIR\): "here": must be an absolute path/);
  assert.throws(wrong, /--size \(S3CSI_SIZE\): "huge": must be one of small, large/);
});

test("an optional path is absolute or absent", () => {
  const flags = { file: { schema: absolutePathIfAny(), placeholder: "FILE", help: "which" } };
  assert.deepEqual({ ...readConfig(flags, [], {}) }, { file: undefined });
  assert.deepEqual({ ...readConfig(flags, ["--file=/a"], {}) }, { file: "/a" });
  assert.throws(() => readConfig(flags, ["--file=a"], {}), /"a": must be an absolute path/);
});

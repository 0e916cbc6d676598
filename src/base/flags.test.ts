import assert from "node:assert/strict";
import { test } from "node:test";
import * as z from "zod";
import { Failure } from "./failure.ts";
import { flagsHelp, readConfig } from "./flags.ts";

const FLAGS = {
  nodeId: { schema: z.string().min(1), placeholder: "NAME", help: "this node" },
  waitMs: { schema: z.coerce.number().int().default(5), placeholder: "MS", help: "how long" },
};

test("a flag wins over the environment, which wins over the default", () => {
  const env = { S3CSI_NODE_ID: "from-env", S3CSI_WAIT_MS: "7" };
  assert.deepEqual({ ...readConfig(FLAGS, ["--node-id=n1"], env) }, { nodeId: "n1", waitMs: 7 });
  assert.deepEqual({ ...readConfig(FLAGS, ["--node-id", "n1"], {}) }, { nodeId: "n1", waitMs: 5 });
});

test("every wrong value is named, with what it was", () => {
  try {
    readConfig(FLAGS, ["--wait-ms=soon"], {});
    assert.fail("wrong values were taken");
  } catch (error) {
    assert(error instanceof Failure);
    assert.equal(error.kind, "invalid");
    assert.match(error.message, /--node-id \(S3CSI_NODE_ID\): missing/);
    assert.match(error.message, /--wait-ms \(S3CSI_WAIT_MS\): "soon": .*number/);
  }
});

test("an unknown flag is an error that names it", () => {
  assert.throws(() => readConfig(FLAGS, ["--nodeid=x"], {}), /--nodeid/);
});

test("help shows each flag with its placeholder", () => {
  assert.match(flagsHelp(FLAGS), /--node-id NAME +this node\n +--wait-ms MS +how long/);
});

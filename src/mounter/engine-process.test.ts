import assert from "node:assert/strict";
import { test } from "node:test";
import type { MountRequest } from "../handover/messages.ts";
import { environmentOf } from "./engine-process.ts";

const REQUEST: MountRequest = {
  do: "mount",
  bucket: "bucket-1",
  args: [],
  env: { AWS_MAX_ATTEMPTS: "3" },
  credentials: null,
};

test("an engine inherits its settings and the pod's CAs, and nothing else", () => {
  const own = { NODE_OPTIONS: "--inspect", HOME: "/", AWS_ACCESS_KEY_ID: "x" };
  const { UV_THREADPOOL_SIZE: threads, ...rest } = environmentOf(REQUEST, own);
  assert(Number(threads) > 4);
  assert.deepEqual(rest, { AWS_MAX_ATTEMPTS: "3" });
  const trusting = environmentOf(REQUEST, { ...own, NODE_EXTRA_CA_CERTS: "/etc/ca.pem" });
  assert.equal(trusting["NODE_EXTRA_CA_CERTS"], "/etc/ca.pem");
});

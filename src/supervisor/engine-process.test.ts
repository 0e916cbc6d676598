import assert from "node:assert/strict";
import { test } from "node:test";
import { podEnvironment } from "./engine-process.ts";

test("an engine in a pod inherits its settings, CAs and proxies, and nothing else", () => {
  const own = { NODE_OPTIONS: "--inspect", HOME: "/", AWS_ACCESS_KEY_ID: "x" };
  const settings = { AWS_MAX_ATTEMPTS: "3" };
  assert.deepEqual(podEnvironment(settings, own), settings);
  const trusting = podEnvironment(settings, { ...own, NODE_EXTRA_CA_CERTS: "/etc/ca.pem" });
  assert.equal(trusting["NODE_EXTRA_CA_CERTS"], "/etc/ca.pem");
  const proxies = { https_proxy: "http://proxy:3128", NO_PROXY: ".local" };
  assert.deepEqual(podEnvironment(settings, { ...own, ...proxies }), { ...settings, ...proxies });
});

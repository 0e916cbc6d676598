import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { createLog } from "../base/pino-log.ts";
import { serveHealth } from "./health-server.ts";

const log = createLog("error", {});
log.level = "silent";
const fine = async () => [];
const buggy = () => Promise.reject(new Error("a bug"));

async function ask(port: number, path: string, method = "GET") {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
  return [response.status, await response.text()];
}

test("200 while there is no problem, else 503 with a line for each", async () => {
  const problems: string[] = [];
  const checks = { alive: fine, ready: async () => problems };
  await using server = await serveHealth(0, checks, log);
  const { port } = server;
  assert.deepEqual(await ask(port, "/readyz"), [200, "ok\n"]);
  assert.deepEqual(await ask(port, "/readyz?verbose"), [200, "ok\n"]);
  problems.push("no socket", "no list");
  assert.deepEqual(await ask(port, "/readyz"), [503, "no socket\nno list\n"]);
  assert.deepEqual(await ask(port, "/healthz"), [200, "ok\n"]);
  assert.deepEqual(await ask(port, "/healthz", "HEAD"), [200, ""]);
});

test("/readyz?verbose adds notes, which are no problems", async () => {
  const checks = { alive: fine, ready: fine, notes: () => ["an old kernel", "an old cgroup"] };
  await using server = await serveHealth(0, checks, log);
  const { port } = server;
  assert.deepEqual(await ask(port, "/readyz"), [200, "ok\n"]);
  const told = "ok\nnote: an old kernel\nnote: an old cgroup\n";
  assert.deepEqual(await ask(port, "/readyz?verbose"), [200, told]);
  assert.deepEqual(await ask(port, "/healthz?verbose"), [200, "ok\n"]);
});

test("a check that throws is a problem, not the end of the process", async () => {
  await using server = await serveHealth(0, { alive: buggy, ready: fine }, log);
  const [status, text] = await ask(server.port, "/healthz");
  assert.deepEqual([status, text], [503, "the check itself failed: see the log\n"]);
});

test("nothing else is served", async () => {
  await using server = await serveHealth(0, { alive: fine, ready: fine }, log);
  assert.deepEqual(await ask(server.port, "/"), [404, ""]);
  assert.deepEqual(await ask(server.port, "//["), [404, ""]);
  assert.deepEqual(await ask(server.port, "/healthz", "POST"), [405, ""]);
});

test("a port that is taken is named", async () => {
  const other = createServer().listen(0);
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  const message = new RegExp(`^--health-port ${port}: .*EADDRINUSE`);
  await assert.rejects(serveHealth(port, { alive: fine, ready: fine }, log), { message });
  other.close();
});

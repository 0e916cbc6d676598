import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { createServer as createTcpServer } from "node:net";
import type { AddressInfo, Server } from "node:net";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { HttpPool } from "./http-pool.ts";
import { AwayFailure } from "./retry.ts";
import { signal } from "./test-endpoint.ts";

/** Sent in many slices, of which the last is short. */
const BODY = Buffer.alloc((128 << 20) + 12_345);
for (let at = 0; at + 4 <= BODY.length; at += 4096) BODY.writeUInt32LE(at, at);

async function withPool(server: Server, work: (pool: HttpPool) => Promise<void>): Promise<void> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const origin = { host: "127.0.0.1", port, tls: false, ca: undefined, connectTimeoutMs: 1000 };
  const pool = new HttpPool(origin, 1);
  try {
    await work(pool);
  } finally {
    pool.close();
    server.close();
  }
}

function putOf(body: Buffer) {
  const headers = { host: "h", "content-length": String(body.length) };
  const rest = { responseTarget: undefined, silenceLimitMs: 5_000, repeatable: false };
  return { method: "PUT", target: "/k", headers, body: [body], ...rest };
}

test("a large body arrives as a whole, and its connection is kept", async () => {
  const digests: string[] = [];
  let connections = 0;
  const server = createServer((request, response) => {
    const hash = createHash("sha256");
    request.on("data", (data: Buffer) => hash.update(data));
    request.on("end", () => {
      digests.push(hash.digest("hex"));
      response.end();
    });
  });
  server.on("connection", () => (connections += 1));
  await withPool(server, async (pool) => {
    for (const body of [BODY, BODY.subarray(0, 10)]) await pool.exchange(putOf(body), signal);
  });
  const expected = [BODY, BODY.subarray(0, 10)].map((body) => {
    return createHash("sha256").update(body).digest("hex");
  });
  assert.deepEqual([digests, connections], [expected, 1]);
});

test("after an answer that came before the end of the body the connection is not used again", async () => {
  let connections = 0;
  const server = createServer((_request, response) => {
    response.writeHead(403, { connection: "keep-alive", "content-length": 0 }).end();
  });
  server.on("connection", () => (connections += 1));
  await withPool(server, async (pool) => {
    for (const _ of [1, 2]) {
      assert.equal((await pool.exchange(putOf(BODY), signal)).status, 403);
    }
  });
  assert.equal(connections, 2);
});

test("a slow transfer that is reset has lost only the time since its last progress", async () => {
  const [steps, stepMs, stepBytes] = [25, 60, 1 << 20];
  const server = createTcpServer({ pauseOnConnect: true }, async (socket) => {
    socket.on("error", () => undefined);
    let takenBytes = 0;
    socket.on("data", (data) => {
      takenBytes += data.length;
      if (takenBytes >= stepBytes) socket.pause();
    });
    for (let step = 0; step < steps; step++) {
      takenBytes = 0;
      socket.resume();
      await delay(stepMs);
    }
    socket.resetAndDestroy();
  });
  await withPool(server, async (pool) => {
    const startedMs = performance.now();
    await assert.rejects(pool.exchange(putOf(BODY.subarray(0, 48 << 20)), signal), (error) => {
      assert(error instanceof AwayFailure);
      const tookMs = performance.now() - startedMs;
      assert(tookMs >= steps * stepMs, `reset after ${tookMs} ms`);
      assert(error.lostMs < tookMs / 3, `${error.lostMs} of ${tookMs} ms count as lost`);
      return true;
    });
  });
});

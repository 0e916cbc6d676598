import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { test } from "node:test";
import { HttpPool } from "./http-pool.ts";

const KIB = 1024;
/** More than what sockets take in advance, so that the server can't finish a half-read answer. */
const LONG_BYTES = 48 << 20;
const NEVER = new AbortController().signal;

/** A server that answers when it is told to, and a pool of connections to it. */
async function heldServer(connectionsMax: number) {
  const held: { readonly request: IncomingMessage; readonly response: ServerResponse }[] = [];
  const asked: string[] = [];
  const sockets = new Set<Socket>();
  let arrived = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    request.resume().once("end", () => {
      asked.push(`${request.method} ${request.url}`);
      held.push({ request, response });
      arrived.resolve();
    });
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket)).on("error", () => undefined);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const origin = { host: "127.0.0.1", port, tls: false, ca: undefined, connectTimeoutMs: 5_000 };
  const pool = new HttpPool(origin, connectionsMax);
  const send = (method: string, name: string, signal = NEVER, restBytes = 0) => {
    const isRead = method === "GET";
    const target = { into: Buffer.alloc(KIB), restBytes, onFilled: () => undefined };
    const request = {
      method,
      target: `/${name}`,
      headers: { host: "h", ...(method === "PUT" ? { "content-length": "3" } : {}) },
      body: method === "PUT" ? [Buffer.from("abc")] : [],
      responseTarget: isRead ? target : undefined,
      silenceLimitMs: 20_000,
      repeatable: true,
    };
    return pool.exchange(request, signal);
  };
  return {
    held,
    asked,
    sockets,
    send,
    /** Resolves when so many requests wait for their answer. */
    untilHeld: async (count: number) => {
      while (held.length < count) {
        arrived = Promise.withResolvers();
        await arrived.promise;
      }
    },
    answerFirst: (sizeBytes = KIB) => {
      const { request, response } = held.shift() ?? assert.fail("nobody waits for an answer");
      const body = request.method === "GET" ? Buffer.alloc(sizeBytes) : Buffer.alloc(0);
      response.writeHead(200, { "content-length": body.length }).end(body);
      return request.url;
    },
    [Symbol.dispose]: () => {
      pool.close();
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Requests that would get a free connection are at the server before this one, made last. */
async function settled(server: Awaited<ReturnType<typeof heldServer>>, heldBefore: number) {
  const probe = server.send("HEAD", "probe");
  await server.untilHeld(heldBefore + 1);
  const at = server.held.findIndex(({ request }) => request.url === "/probe");
  const [{ response } = assert.fail("no probe")] = server.held.splice(at, 1);
  response.writeHead(200).end();
  await probe;
}

for (const method of ["PUT", "GET", "HEAD"]) {
  test(`never more ${method} requests run at once than the limit, in their order`, async () => {
    const [limit, all] = [2, 40];
    using server = await heldServer(limit);
    const sent = Array.from({ length: all }, (_, n) => server.send(method, String(n)));
    for (let done = 0; done < all; done++) {
      const running = Math.min(limit, all - done);
      await server.untilHeld(running);
      assert.equal(server.held.length, running);
      await sent[Number(server.answerFirst()?.slice(1))];
      assert(server.sockets.size <= limit, `${server.sockets.size} connections`);
    }
    const names = server.asked.map((line) => Number(line.split("/")[1]));
    const isInOrder = names.every((name, at) => Math.abs(name - at) < limit);
    assert(isInOrder, `two connections do not change places by more than one: ${names.join()}`);
  });
}

test("uploads leave connections to downloads, and both leave some to other requests", async () => {
  using server = await heldServer(16);
  const sent = Array.from({ length: 30 }, (_, n) => server.send("PUT", String(n)));
  await server.untilHeld(12);
  await settled(server, 12);
  assert.equal(server.held.length, 12, "uploads take three quarters");
  sent.push(...Array.from({ length: 30 }, (_, n) => server.send("GET", String(n))));
  await server.untilHeld(14);
  await settled(server, 14);
  assert.equal(server.held.length, 14, "with downloads they take seven eighths");
  const others = Array.from({ length: 3 }, (_, n) => server.send("HEAD", String(n)));
  await server.untilHeld(16);
  assert.equal(server.held.length, 16);
  for (let done = 0; done < 63; done++) {
    await server.untilHeld(1);
    server.answerFirst();
  }
  await Promise.all([...sent, ...others]);
});

test("a half-read answer takes no place until it is read on", async () => {
  using server = await heldServer(2);
  const halves = [];
  for (let n = 0; n < 10; n++) {
    const half = server.send("GET", String(n), NEVER, LONG_BYTES - KIB);
    await server.untilHeld(1);
    server.answerFirst(LONG_BYTES);
    halves.push((await half).rest ?? assert.fail("nothing is left"));
  }
  const put = server.send("PUT", "other");
  await server.untilHeld(1);
  const target = { into: Buffer.alloc(KIB), restBytes: LONG_BYTES - 2 * KIB, onFilled: () => {} };
  const rest = await halves[0]?.readOn(target, NEVER);
  assert.equal(rest?.isThere(), true);
  server.answerFirst();
  await put;
  for (const half of halves) half.close();
});

test("an answer that is given up while it waits to be read on is closed", async () => {
  using server = await heldServer(1);
  const half = server.send("GET", "long", NEVER, LONG_BYTES - KIB);
  await server.untilHeld(1);
  server.answerFirst(LONG_BYTES);
  const { rest } = await half;
  const put = server.send("PUT", "other");
  await server.untilHeld(1);
  const giving = new AbortController();
  const target = { into: Buffer.alloc(KIB), onFilled: () => undefined };
  const readOn = rest?.readOn(target, giving.signal);
  giving.abort(new Error("given up"));
  await assert.rejects(readOn ?? assert.fail("nothing is left"), /given up/);
  assert.equal(rest?.isThere(), false, "nobody else could read it on");
  server.answerFirst();
  await put;
});

test("an answer that was lost while it waited to be read on costs nothing of the budget", async () => {
  using server = await heldServer(1);
  const half = server.send("GET", "long", NEVER, LONG_BYTES - KIB);
  await server.untilHeld(1);
  const [socket] = server.sockets;
  server.answerFirst(LONG_BYTES);
  const { rest } = await half;
  const put = server.send("PUT", "other");
  await server.untilHeld(1);
  const readOn = rest?.readOn({ into: Buffer.alloc(KIB), onFilled: () => undefined }, NEVER);
  readOn?.catch(() => undefined);
  assert(socket !== undefined);
  rest?.close(); // as after 30 s in which nobody has read on
  server.answerFirst();
  await put;
  await assert.rejects(readOn ?? assert.fail("nothing is left"), { lostMs: 0 });
});

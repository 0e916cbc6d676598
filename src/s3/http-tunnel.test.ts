import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { mock, test } from "node:test";
import { Failure } from "../base/failure.ts";
import { Secret } from "../base/secret.ts";
import { CaBundle } from "./ca-bundle.ts";
import { HttpPool } from "./http-pool.ts";
import { openTunnel } from "./http-tunnel.ts";
import { AwayFailure } from "./retry.ts";

const signal = AbortSignal.timeout(20_000);
const AUTHORIZATION = "Basic dXNlcjpwYXNz";

async function listen(server: Server) {
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const proxy = {
    host: "127.0.0.1",
    port,
    tls: false,
    authorization: new Secret(AUTHORIZATION),
  };
  const origin = { host: "s3.example.com", port: 443, tls: true, ca: undefined, proxy };
  return { proxy, origin: { ...origin, connectTimeoutMs: 500 } };
}

/** A proxy that answers every CONNECT with these words, and closes if there are none. */
async function scripted(answer: string | undefined) {
  const asked: string[] = [];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.on("data", (bytes) => {
      asked.push(bytes.toString());
      if (answer === undefined) socket.destroy();
      else socket.write(answer);
    });
  });
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { ...(await listen(server)), asked, sockets, [Symbol.dispose]: close };
}

test("a tunnel is asked for by name, with the proxy's own credentials", async () => {
  using it = await scripted("HTTP/1.1 200 OK\r\nx: y\r\n\r\n");
  const socket = await openTunnel(it.origin, it.proxy, signal);
  socket.destroy();
  assert.deepEqual(it.asked, [
    `CONNECT s3.example.com:443 HTTP/1.1\r\nhost: s3.example.com:443\r\nproxy-authorization: ${AUTHORIZATION}\r\n\r\n`,
  ]);
});

// prettier-ignore
const refusals: [answer: string | undefined, kind: string, waitedOut: boolean, says: RegExp][] = [
  ["HTTP/1.1 407 No\r\n\r\n",         "denied", false, /does not accept the user and password/],
  ["HTTP/1.1 403 Forbidden\r\n\r\n",  "denied", false, /does not connect us with s3.example.com:443: HTTP 403/],
  ["HTTP/1.1 400 Bad\r\n\r\n",        "remote", false, /HTTP 400/],
  ["HTTP/1.1 502 Bad\r\n\r\n",        "remote", true,  /HTTP 502/],
  ["SSH-2.0\r\n\r\n",                 "remote", true,  /can't reach the proxy .*: it does not speak HTTP/],
  ["HTTP/1.1 200 " + "x".repeat(20_000), "remote", true, /an answer without end/],
  ["HTTP/1.1 200",                    "remote", true,  /can't reach the proxy http:\/\/127.0.0.1:\d+: no answer in time/],
  [undefined,                         "remote", true,  /closed|ECONNRESET/],
];
for (const [answer, kind, waitedOut, says] of refusals) {
  test(`${JSON.stringify(answer?.slice(0, 24))} is ${kind}${waitedOut ? ", and waited out" : ""}`, async () => {
    using it = await scripted(answer);
    await assert.rejects(openTunnel(it.origin, it.proxy, signal), (error) => {
      assert(error instanceof Failure);
      assert.deepEqual([error.kind, error instanceof AwayFailure], [kind, waitedOut]);
      assert.match(error.message, says);
      return true;
    });
  });
}

test("a tunnel is closed when there are no authorities to check its other end with", async () => {
  using it = await scripted("HTTP/1.1 200 OK\r\n\r\n");
  const options = { path: "/no/such", setting: "--ca-bundle", isExclusive: true };
  const ca = new CaBundle({ ...options, isKnownToWork: true });
  const pool = new HttpPool({ ...it.origin, ca }, 1);
  const request = {
    method: "GET",
    target: "/",
    headers: { host: "h" },
    body: [],
    responseTarget: undefined,
    silenceLimitMs: 5_000,
    repeatable: true,
  };
  await assert.rejects(pool.exchange(request, signal), AwayFailure);
  const [socket] = it.sockets;
  assert(socket !== undefined);
  if (!socket.closed) await once(socket, "close", { signal });
});

test("who does not want it any more does not wait for it", async () => {
  using it = await scripted("HTTP/1.1 200");
  const stop = new AbortController();
  const opening = openTunnel(it.origin, it.proxy, stop.signal);
  stop.abort(new Error("gone"));
  await assert.rejects(opening, /gone/);
});

test("a body that a proxy passes on lands in its target without a copy", async () => {
  const body = Buffer.alloc(8 << 20, "content ");
  const urls: unknown[] = [];
  const server = createHttpServer((request, response) => {
    urls.push(request.url, request.headers["proxy-authorization"]);
    response.writeHead(200, { "content-length": body.length }).end(body);
  });
  const { origin } = await listen(server);
  const pool = new HttpPool({ ...origin, port: 80, tls: false }, 2);
  const into = Buffer.alloc(body.length);
  const copy = mock.method(Buffer.prototype, "copy");
  await pool.exchange(
    {
      method: "GET",
      target: "/bucket/key?x=y",
      headers: { host: "s3.example.com" },
      body: [],
      responseTarget: { into, onFilled: () => undefined },
      silenceLimitMs: 5_000,
      repeatable: true,
    },
    signal,
  );
  let copied = 0;
  for (const { result } of copy.mock.calls) copied += Number(result);
  copy.mock.restore();
  pool.close();
  server.close();
  assert(into.equals(body));
  assert(copied <= 64 * 1024, `${copied} bytes were copied`);
  assert.deepEqual(urls, ["http://s3.example.com/bucket/key?x=y", AUTHORIZATION]);
});

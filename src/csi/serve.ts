import { once } from "node:events";
import { chmod, mkdir, rm } from "node:fs/promises";
import { createServer } from "node:http2";
import type { ServerHttp2Session } from "node:http2";
import { dirname } from "node:path";
import { Code } from "@connectrpc/connect";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import type { ConnectNodeAdapterOptions } from "@connectrpc/connect-node";
import type { Log } from "../base/log.ts";
import { failuresToStatus } from "./status.ts";

const UNIX = "unix://";
const CALLS_END_WITHIN_MS = 2_000;

/**
 * Serves gRPC on a unix socket. The socket of an earlier life of this process is replaced: the
 * kubelet and the sidecars connect by path, and only one driver of a name runs on a node.
 */
export async function serve(
  endpoint: string,
  routes: (router: ConnectRouter) => void,
  log: Log,
): Promise<AsyncDisposable> {
  const path = socketPathOf(endpoint);
  const interceptors = [failuresToStatus(log)];
  const answer = connectNodeAdapter({ routes, interceptors, connect: false, fallback: refuse });
  const server = createServer((request, response) => {
    // The kubelet's plugin watcher puts the socket's path here, which no URL parser takes.
    request.headers[":authority"] = "localhost";
    answer(request, response);
  });
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
  });
  await mkdir(dirname(path), { recursive: true });
  await rm(path, { force: true });
  server.listen(path);
  await once(server, "listening");
  await chmod(path, 0o600);
  log.info({ endpoint }, "serving gRPC");
  return {
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      for (const session of sessions) session.close();
      // A publish may wait for minutes, and its caller comes back: the process does not.
      const cut = setTimeout(() => {
        for (const session of sessions) session.destroy();
      }, CALLS_END_WITHIN_MS);
      await closed;
      clearTimeout(cut);
    },
  };
}

/** The library's own answer to an unknown method is a bare 404, which clients take for a bug. */
const refuse: NonNullable<ConnectNodeAdapterOptions["fallback"]> = (request, response) => {
  const status = { "grpc-status": String(Code.Unimplemented), "grpc-message": "not offered" };
  response.writeHead(200, { "content-type": "application/grpc", ...status });
  response.end();
  request.resume();
};

/** `unix:///run/x.sock`, as CSI's tools write it. */
export function socketPathOf(endpoint: string): string {
  return endpoint.startsWith(UNIX) ? endpoint.slice(UNIX.length) : endpoint;
}

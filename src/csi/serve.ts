import { once } from "node:events";
import { chmod, mkdir, rm } from "node:fs/promises";
import { createServer } from "node:http2";
import type { ServerHttp2Session } from "node:http2";
import { dirname } from "node:path";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import type { Log } from "../base/log.ts";
import { failuresToStatus } from "./status.ts";

const UNIX = "unix://";

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
  const answer = connectNodeAdapter({ routes, interceptors, connect: false });
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
      await closed;
    },
  };
}

/** `unix:///run/x.sock`, as CSI's tools write it. */
export function socketPathOf(endpoint: string): string {
  return endpoint.startsWith(UNIX) ? endpoint.slice(UNIX.length) : endpoint;
}

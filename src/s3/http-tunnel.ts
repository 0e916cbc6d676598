import { Buffer } from "node:buffer";
import net from "node:net";
import { Failure } from "../base/failure.ts";
import { within } from "../base/within.ts";
import type { CaBundle } from "./ca-bundle.ts";
import { parseHead } from "./http-head.ts";
import { loadTls } from "./load-tls.ts";
import type { HttpOrigin } from "./http-connection.ts";
import { authorizationLine, bracketed, proxyName, refusalOf } from "./http-proxy.ts";
import type { HttpProxy } from "./http-proxy.ts";
import { AwayFailure, PermanentFailure } from "./retry.ts";

const HEAD_BYTES_MAX = 16 * 1024;
const HEAD_END = "\r\n\r\n";

/** A connected socket to the origin through its proxy, on which nothing has been said yet. */
export async function openTunnel(
  origin: HttpOrigin,
  proxy: HttpProxy,
  signal: AbortSignal,
): Promise<net.Socket> {
  signal.throwIfAborted();
  const limit = AbortSignal.any([signal, AbortSignal.timeout(origin.connectTimeoutMs)]);
  const startedMs = performance.now();
  const socket = connectTo(proxy, origin);
  try {
    const target = `${bracketed(origin.host)}:${origin.port}`;
    const authorization = authorizationLine(proxy);
    socket.write(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n${authorization}\r\n`);
    const status = await within(answerOf(socket), limit, tooLate);
    if (status < 200 || status >= 300) throw refusal(status, target, proxy);
    return socket;
  } catch (error) {
    socket.destroy();
    signal.throwIfAborted();
    if (error instanceof Failure) throw error;
    const lostMs = performance.now() - startedMs;
    throw new AwayFailure(`can't reach ${proxyName(proxy)}: ${reasonOf(error)}`, error, lostMs);
  }
}

/** What Node has to know to speak TLS with a host. */
export function tlsOptionsOf(host: string, ca: CaBundle | undefined) {
  const servername = net.isIP(host) === 0 ? host : ""; // an address is not a name to ask for
  return { servername, ...(ca === undefined ? {} : { secureContext: ca.context() }) };
}

/** A failed connect to several addresses has an empty message and its reasons in a list. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(String).join("; ");
  return error instanceof Error ? error.message : String(error);
}

function connectTo({ host, port, tls: isTls }: HttpProxy, origin: HttpOrigin): net.Socket {
  const plain = { host, port, ...origin.binding?.(host) };
  const socket = isTls
    ? loadTls().connect({ ...plain, ...tlsOptionsOf(host, origin.ca) })
    : net.connect(plain);
  return socket.setNoDelay(true);
}

/** The status of the one answer that comes before the origin's own bytes. */
async function answerOf(socket: net.Socket): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let head = Buffer.alloc(0);
  const onData = (bytes: Buffer) => {
    head = Buffer.concat([head, bytes]);
    const end = head.indexOf(HEAD_END);
    try {
      if (end !== -1) resolve(parseHead(head.toString("latin1", 0, end)).status);
      else if (head.length > HEAD_BYTES_MAX) reject(new Error("an answer without end"));
    } catch (error) {
      reject(new Error("it does not speak HTTP/1.1", { cause: error }));
    }
  };
  const onClose = () => reject(new Error("it closed the connection"));
  // The listener for errors stays: one may come before the next owner listens.
  socket.on("error", reject).on("data", onData).on("close", onClose);
  try {
    return await promise;
  } finally {
    socket.off("data", onData).off("close", onClose).pause();
  }
}

function tooLate(): Error {
  return new Error("no answer in time");
}

function refusal(status: number, target: string, proxy: HttpProxy): Failure {
  if (status === 407) return refusalOf(proxy);
  const text = `${proxyName(proxy)} does not connect us with ${target}: HTTP ${status}`;
  if (status >= 500 || status === 429) return new AwayFailure(text);
  return status === 403 ? new Failure("denied", text) : new PermanentFailure(text);
}

import { Buffer } from "node:buffer";
import net from "node:net";
import { Failure } from "../base/failure.ts";
import type { CaBundle } from "./ca-bundle.ts";
import { authorizationLine, proxyName } from "./http-proxy.ts";
import type { HttpProxy } from "./http-proxy.ts";
import { reasonOf, tlsOptionsOf } from "./http-tunnel.ts";
import type { LocalBinding } from "./local-binding.ts";
import { loadTls } from "./load-tls.ts";
import { AwayFailure } from "./retry.ts";
import { ResponseReader } from "./response-reader.ts";
import type { HttpResponse, ResponseTarget } from "./response-reader.ts";

const SCRATCH_BYTES = 64 * 1024;
/** A slice that the kernel has taken is progress; an eighth of a part costs no CPU worth it. */
const SLICE_BYTES = 1024 * 1024;
/** A copy of so little is cheaper than a second buffer for writev(2). */
const COPIED_BYTES_MAX = 64 * 1024;
const IDLE_LIMIT_MS = 30_000;
/** So long the endpoint waits with the rest of an answer; then it may be asked again. */
const HALTED_LIMIT_MS = 30_000;

export interface HttpOrigin {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** Undefined: Node's own certificate authorities. */
  readonly ca: CaBundle | undefined;
  readonly connectTimeoutMs: number;
  /** On the way to it: asked for a tunnel if the origin has TLS, else for each request. */
  readonly proxy?: HttpProxy | undefined;
  readonly binding?: LocalBinding | undefined;
}

export interface HttpRequest {
  readonly method: string;
  /** Path and query as they go on the wire. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: readonly Uint8Array[];
  readonly responseTarget: ResponseTarget | undefined;
  /** Silence for this long, in either direction, is a failure. */
  readonly silenceLimitMs: number;
  /** To execute it twice is the same as once: a stale connection is replaced unnoticed. */
  readonly repeatable: boolean;
}

interface Exchange {
  readonly reader: ResponseReader;
  readonly silenceLimitMs: number;
  resolve(response: HttpResponse): void;
  reject(error: unknown): void;
}

/**
 * One socket, one exchange at a time. Bodies land in the caller's own memory: the socket asks for
 * the buffer of each read, and gets the very place where the bytes belong.
 */
export class HttpConnection {
  readonly #origin: HttpOrigin;
  readonly #socket: net.Socket;
  readonly #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  #exchange: Exchange | undefined;
  #connected = false;
  #broken: Failure | undefined;
  #exchanges = 0;
  /** Whether anything of the current answer has come. */
  #answered = false;
  #timedOut = false;
  #hasUnsent = false;
  /** When the endpoint was last known to be there, or was asked. */
  #signOfLifeMs = 0;

  /** The tunnel, if there is one, ends at the origin. */
  constructor(origin: HttpOrigin, tunnel?: net.Socket) {
    this.#origin = origin;
    const onread = {
      buffer: () => this.#exchange?.reader.directTarget() ?? this.#scratch,
      callback: (count: number, bytes: Uint8Array) => this.#onRead(count, bytes),
    };
    const peer = tunnel === undefined ? (origin.proxy ?? origin) : origin;
    const plain = { host: peer.host, port: peer.port, ...origin.binding?.(peer.host), onread };
    const secured = () => tlsOptionsOf(peer.host, origin.ca);
    if (tunnel !== undefined) {
      // Node takes no buffers of ours here: these bytes are copied once more. It checks the
      // certificate of an address by `host`, since an address is no servername.
      this.#socket = loadTls().connect({ ...secured(), host: peer.host, socket: tunnel });
      this.#socket.on("data", (bytes: Buffer) => {
        if (!this.#onRead(bytes.length, bytes)) this.#socket.pause();
      });
    } else if (peer.tls) this.#socket = loadTls().connect({ ...plain, ...secured() });
    else this.#socket = net.connect(plain);
    this.#socket.setNoDelay(true);
    this.#socket.setTimeout(origin.connectTimeoutMs);
    this.#socket.once(peer.tls ? "secureConnect" : "connect", () => this.#onConnect());
    this.#socket.on("timeout", () => {
      this.#timedOut = true;
      this.#break("no answer in time");
    });
    this.#socket.on("error", (error) => this.#break(reasonOf(error), error));
    this.#socket.on("end", () => this.#onEnd());
    this.#socket.on("close", () => this.#break("connection closed"));
  }

  /** A kept connection was closed by the other side before it answered: not an outage. */
  get wentStale(): boolean {
    return this.#exchanges > 1 && !this.#answered && !this.#timedOut;
  }

  /** A kept connection without a sign of life: a firewall may have dropped what it knew of it. */
  get wentSilent(): boolean {
    return this.#exchanges > 1 && !this.#answered && this.#timedOut;
  }

  get usable(): boolean {
    return this.#broken === undefined && this.#exchange === undefined;
  }

  /** In the middle of an answer, until goOn(). */
  get halted(): boolean {
    return this.#broken === undefined && this.#exchange?.reader.full === true;
  }

  async exchange(request: HttpRequest, signal: AbortSignal): Promise<HttpResponse> {
    const reader = new ResponseReader(request.method, request.responseTarget);
    return this.#receive(reader, request.silenceLimitMs, signal, () => {
      this.#exchanges += 1;
      this.#answered = false;
      this.#send(request);
    });
  }

  /** The next bytes of a halted answer: until it is halted again, or done. */
  async goOn(target: ResponseTarget, signal: AbortSignal): Promise<void> {
    if (this.#exchange === undefined) throw this.#broken ?? new Failure("remote", "no answer left");
    const { reader, silenceLimitMs } = this.#exchange;
    await this.#receive(reader, silenceLimitMs, signal, () => {
      reader.goOn(target);
      this.#settle();
      if (!this.halted) this.#socket.resume();
    });
  }

  close(): void {
    this.#break("closed by us");
  }

  async #receive(
    reader: ResponseReader,
    silenceLimitMs: number,
    signal: AbortSignal,
    begin: () => void,
  ): Promise<HttpResponse> {
    if (this.#broken !== undefined) throw this.#broken;
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<HttpResponse>();
    this.#exchange = { reader, silenceLimitMs, resolve, reject };
    const onAbort = () => {
      reject(signal.reason);
      this.close();
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#signOfLifeMs = performance.now();
    try {
      if (this.#connected) this.#socket.setTimeout(silenceLimitMs);
      begin();
      return await promise;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  #send(request: HttpRequest): void {
    const lines = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const { proxy, tls: isTls } = this.#origin;
    const reads = isTls ? undefined : proxy; // in a tunnel it sees nothing
    const target = reads ? `http://${request.headers["host"]}${request.target}` : request.target;
    if (reads !== undefined) lines.push(authorizationLine(reads));
    const head = `${request.method} ${target} HTTP/1.1\r\n${lines.join("")}\r\n`;
    const bodyBytes = request.body.reduce((sum, { length }) => sum + length, 0);
    if (bodyBytes > 0 && bodyBytes <= COPIED_BYTES_MAX) {
      this.#hasUnsent = false;
      this.#socket.write(Buffer.concat([Buffer.from(head), ...request.body]));
      return;
    }
    this.#socket.cork();
    this.#socket.write(head);
    this.#sendSlices(slicesOf(request.body), 0);
    this.#socket.uncork();
  }

  /**
   * Slices go one by one: Node tells of the progress of a write only at its end. Besides, a TLS
   * socket copies what waits, and OpenSSL counts in an int.
   */
  #sendSlices(slices: readonly Uint8Array[], at: number): void {
    const slice = slices[at];
    this.#hasUnsent = at + 1 < slices.length;
    if (slice === undefined || this.#broken !== undefined) return;
    this.#socket.write(slice, (error) => {
      if (error) return; // the connection breaks, and this write is no progress
      this.#signOfLifeMs = performance.now();
      this.#sendSlices(slices, at + 1);
    });
  }

  #onConnect(): void {
    this.#connected = true;
    this.#signOfLifeMs = performance.now();
    if (this.#exchange !== undefined) this.#socket.setTimeout(this.#exchange.silenceLimitMs);
  }

  #onRead(count: number, bytes: Uint8Array): boolean {
    if (this.#exchange === undefined) {
      this.#break("data that nobody asked for");
      return false;
    }
    this.#answered = true;
    this.#signOfLifeMs = performance.now();
    try {
      const view = Buffer.from(bytes.buffer, bytes.byteOffset, count);
      this.#exchange.reader.take(view);
      this.#settle();
    } catch (error) {
      this.#break("a malformed answer", error);
    }
    return !this.halted;
  }

  /** Tells who waits for the answer when there is nothing more to wait for. */
  #settle(): void {
    const exchange = this.#exchange;
    if (exchange?.reader.done === true) this.#complete(exchange);
    if (exchange === undefined || !this.halted) return;
    this.#socket.setTimeout(HALTED_LIMIT_MS);
    exchange.resolve(exchange.reader.response());
  }

  #onEnd(): void {
    const exchange = this.#exchange;
    if (exchange?.reader.endsWithConnection === true) this.#complete(exchange);
    this.#break("connection closed by the endpoint");
  }

  #complete(exchange: Exchange): void {
    this.#exchange = undefined;
    this.#socket.setTimeout(IDLE_LIMIT_MS);
    const response = exchange.reader.response();
    const closes = response.headers.get("connection")?.toLowerCase() === "close";
    // Answered before it was asked to the end: the rest of the body must not follow.
    const isUnsent = this.#hasUnsent || this.#socket.writableLength > 0;
    if (closes || isUnsent || exchange.reader.hasSurplus) this.#break("done");
    exchange.resolve(response);
  }

  #break(why: string, cause?: unknown): void {
    if (this.#broken !== undefined) return;
    const { host, port, tls: isTls, proxy } = this.#origin;
    const verb = this.#connected ? "lost the connection to" : "can't reach";
    const direct = isTls || proxy === undefined;
    const peer = direct ? `the endpoint ${host}:${port}` : proxyName(proxy);
    const exchange = this.#exchange;
    // The kernel sends the end of a body without telling of its progress.
    const lostMs = exchange
      ? Math.min(performance.now() - this.#signOfLifeMs, exchange.silenceLimitMs)
      : 0;
    this.#broken = new AwayFailure(`${verb} ${peer}: ${why}`, cause, lostMs);
    this.#socket.destroy();
    this.#exchange = undefined;
    exchange?.reject(this.#broken);
  }
}

function slicesOf(body: readonly Uint8Array[]): Uint8Array[] {
  return body.flatMap((chunk) => {
    const count = Math.ceil(chunk.length / SLICE_BYTES);
    return Array.from({ length: count }, (_, index) => {
      return chunk.subarray(index * SLICE_BYTES, (index + 1) * SLICE_BYTES);
    });
  });
}

import { Buffer } from "node:buffer";
import net from "node:net";
import type { Failure } from "../base/failure.ts";
import { AwayFailure } from "./retry.ts";
import { ResponseReader } from "./response-reader.ts";
import type { HttpResponse, ResponseTarget } from "./response-reader.ts";

const SCRATCH_BYTES = 64 * 1024;
const IDLE_LIMIT_MS = 30_000;

export interface HttpOrigin {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** Replaces the system's certificate authorities. */
  readonly ca: string | undefined;
  readonly connectTimeoutMs: number;
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
}

interface Exchange {
  readonly reader: ResponseReader;
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

  constructor(origin: HttpOrigin) {
    this.#origin = origin;
    const onread = {
      buffer: () => this.#exchange?.reader.directTarget() ?? this.#scratch,
      callback: (count: number, bytes: Uint8Array) => this.#onRead(count, bytes),
    };
    const { host, port, ca } = origin;
    const plain = { host, port, onread };
    const secured = {
      ...plain,
      servername: net.isIP(host) === 0 ? host : "", // an address is not a name to ask for
      ...(ca === undefined ? {} : { ca }),
    };
    this.#socket = origin.tls ? loadTls().connect(secured) : net.connect(plain);
    this.#socket.setNoDelay(true);
    this.#socket.setTimeout(origin.connectTimeoutMs);
    this.#socket.once(origin.tls ? "secureConnect" : "connect", () => this.#onConnect());
    this.#socket.on("timeout", () => this.#break("no answer in time"));
    this.#socket.on("error", (error) => this.#break(reasonOf(error), error));
    this.#socket.on("end", () => this.#onEnd());
    this.#socket.on("close", () => this.#break("connection closed"));
  }

  /** A used connection may have been closed by the other side just now: that is not an error. */
  get usedBefore(): boolean {
    return this.#exchanges > 1;
  }

  get usable(): boolean {
    return this.#broken === undefined && this.#exchange === undefined;
  }

  async exchange(request: HttpRequest, signal: AbortSignal): Promise<HttpResponse> {
    if (this.#broken !== undefined) throw this.#broken;
    signal.throwIfAborted();
    this.#exchanges += 1;
    const { promise, resolve, reject } = Promise.withResolvers<HttpResponse>();
    const reader = new ResponseReader(request.method, request.responseTarget);
    this.#exchange = { reader, resolve, reject };
    const onAbort = () => {
      reject(signal.reason);
      this.close();
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      if (this.#connected) this.#socket.setTimeout(request.silenceLimitMs);
      else this.#socket.once("connect", () => this.#socket.setTimeout(request.silenceLimitMs));
      this.#send(request);
      return await promise;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  close(): void {
    this.#break("closed by us");
  }

  #send(request: HttpRequest): void {
    const lines = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}\r\n`);
    this.#socket.cork();
    this.#socket.write(`${request.method} ${request.target} HTTP/1.1\r\n${lines.join("")}\r\n`);
    for (const chunk of request.body) this.#socket.write(chunk);
    this.#socket.uncork();
  }

  #onConnect(): void {
    this.#connected = true;
  }

  #onRead(count: number, bytes: Uint8Array): boolean {
    if (this.#exchange === undefined) {
      this.#break("data that nobody asked for");
      return false;
    }
    try {
      const view = Buffer.from(bytes.buffer, bytes.byteOffset, count);
      this.#exchange.reader.take(view);
      if (this.#exchange.reader.done) this.#complete(this.#exchange);
    } catch (error) {
      this.#break("a malformed answer", error);
    }
    return true;
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
    if (closes || this.#socket.writableLength > 0) this.#break("done");
    exchange.resolve(response);
  }

  #break(why: string, cause?: unknown): void {
    if (this.#broken !== undefined) return;
    const { host, port } = this.#origin;
    const verb = this.#connected ? "lost the connection to" : "can't reach";
    this.#broken = new AwayFailure(`${verb} the endpoint ${host}:${port}: ${why}`, cause);
    this.#socket.destroy();
    const exchange = this.#exchange;
    this.#exchange = undefined;
    exchange?.reject(this.#broken);
  }
}

/** Only where it is spoken: loading it takes longer than all of this program. */
function loadTls() {
  return process.getBuiltinModule("node:tls");
}

/** A failed connect to several addresses has an empty message and its reasons in a list. */
function reasonOf(error: Error): string {
  if (error instanceof AggregateError) return error.errors.map(String).join("; ");
  return error.message;
}

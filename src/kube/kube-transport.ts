import http from "node:http";
import https from "node:https";
import type { IncomingMessage, RequestOptions } from "node:http";
import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import type { KubeAccess } from "./kube-access.ts";

export interface KubeRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: object;
  readonly contentType?: string;
}

/** Silence this long is a dead connection. A watch carries a bookmark about every minute. */
export interface SilenceLimits {
  readonly requestMs: number;
  readonly watchMs: number;
}
const SILENCE_LIMITS: SilenceLimits = { requestMs: 30_000, watchMs: 150_000 };
const CONNECTIONS_MAX = 16;
const TCP_KEEP_ALIVE_MS = 15_000;

/** HTTP to one API server: connections are kept, every fault comes out as a Failure. */
export class KubeTransport {
  readonly #access: KubeAccess;
  readonly #http: Pick<typeof http, "request">;
  readonly #requests: http.Agent;
  /** Watches hold their connection for minutes: they must not use up those of the requests. */
  readonly #watches: http.Agent;
  readonly #silence: SilenceLimits;

  constructor(access: KubeAccess, silence: SilenceLimits = SILENCE_LIMITS) {
    this.#access = access;
    this.#silence = silence;
    const secure = access.server.protocol === "https:";
    const options = { keepAlive: true, keepAliveMsecs: TCP_KEEP_ALIVE_MS, ...access.tls };
    const agent = (extra: http.AgentOptions) =>
      secure
        ? new https.Agent({ ...options, ...extra })
        : new http.Agent({ keepAlive: true, keepAliveMsecs: TCP_KEEP_ALIVE_MS, ...extra });
    this.#http = secure ? https : http;
    this.#requests = agent({ maxSockets: CONNECTIONS_MAX });
    this.#watches = agent({});
  }

  async send<T>(request: KubeRequest, signal: AbortSignal): Promise<T> {
    const response = await this.#open(request, this.#requests, this.#silence.requestMs, signal);
    const text = await textOf(response, request);
    if (!isSuccess(response)) throw failureOf(response, text, request);
    try {
      const object: T = JSON.parse(text);
      return object;
    } catch (error) {
      throw new Failure("remote", `${request.method} ${request.path}: not JSON`, error);
    }
  }

  /** The answer's lines as they come. */
  async *lines(
    path: string,
    signal: AbortSignal,
    opened?: () => void,
  ): AsyncGenerator<string, void, undefined> {
    const request = { method: "GET", path } as const;
    const response = await this.#open(request, this.#watches, this.#silence.watchMs, signal);
    if (!isSuccess(response)) throw failureOf(response, await textOf(response, request), request);
    opened?.();
    let rest = "";
    try {
      for await (const chunk of response.setEncoding("utf8")) {
        const lines = `${rest}${chunk}`.split("\n");
        rest = lines.pop() ?? "";
        yield* lines;
      }
    } catch (error) {
      throw asFailure(error, request);
    }
  }

  [Symbol.dispose](): void {
    this.#requests.destroy();
    this.#watches.destroy();
  }

  async #open(
    request: KubeRequest,
    agent: http.Agent,
    silentMs: number,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    try {
      const options = { agent, signal, ...(await this.#optionsOf(request, body)) };
      try {
        return await this.#once(options, body, silentMs);
      } catch (error) {
        if (!(error instanceof IdleConnectionClosed)) throw error;
        return await this.#once(options, body, silentMs);
      }
    } catch (error) {
      throw asFailure(error, request);
    }
  }

  async #optionsOf(request: KubeRequest, body: string | undefined): Promise<RequestOptions> {
    const { server } = this.#access;
    return {
      method: request.method,
      hostname: server.hostname.replace(/^\[(.*)\]$/, "$1"),
      port: server.port === "" ? (server.protocol === "https:" ? 443 : 80) : server.port,
      path: `${server.pathname.replace(/\/$/, "")}${request.path}`,
      headers: {
        ...(await this.#access.headers()),
        Accept: "application/json",
        ...(body === undefined
          ? {}
          : {
              "Content-Type": request.contentType ?? "application/json",
              "Content-Length": Buffer.byteLength(body),
            }),
      },
    };
  }

  #once(
    options: RequestOptions,
    body: string | undefined,
    silentMs: number,
  ): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const outgoing = this.#http.request(options, resolve);
    outgoing.setTimeout(silentMs, () =>
      outgoing.destroy(new Failure("timeout", `the API server was silent for ${silentMs} ms`)),
    );
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      const idle = outgoing.reusedSocket && error.code === "ECONNRESET";
      reject(idle ? new IdleConnectionClosed("closed while idle", { cause: error }) : error);
    });
    outgoing.end(body);
    return promise;
  }
}

/** The server closed a kept connection just as we took it: this request may simply go again. */
class IdleConnectionClosed extends Error {}

function isSuccess(response: IncomingMessage): boolean {
  const { statusCode = 0 } = response;
  return statusCode >= 200 && statusCode < 300;
}

async function textOf(response: IncomingMessage, request: KubeRequest): Promise<string> {
  let text = "";
  try {
    for await (const chunk of response.setEncoding("utf8")) text += chunk;
  } catch (error) {
    throw asFailure(error, request);
  }
  return text;
}

function failureOf(response: IncomingMessage, text: string, request: KubeRequest): Failure {
  const status = statusOf(text);
  const code = response.statusCode ?? 0;
  const kind = kindOf(code, status.reason);
  const message = status.message ?? `status ${code}`;
  return new Failure(kind, `${request.method} ${request.path}: ${message}`);
}

function statusOf(text: string): { reason?: string; message?: string } {
  try {
    return JSON.parse(text);
  } catch {
    return {}; // a proxy's page: the code says enough
  }
}

function kindOf(code: number, reason: string | undefined): FailureKind {
  if (code === 409) return reason === "AlreadyExists" ? "conflict" : "stale";
  if (code === 404) return "absent";
  if (code === 410) return "stale";
  if (code === 401 || code === 403) return "denied";
  if (code === 429) return "busy";
  return code >= 400 && code < 500 ? "invalid" : "remote";
}

function asFailure(error: unknown, request: KubeRequest): Failure {
  if (error instanceof Failure) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new Failure("remote", `${request.method} ${request.path}: ${message}`, error);
}

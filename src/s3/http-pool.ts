import { Failure } from "../base/failure.ts";
import { HttpConnection } from "./http-connection.ts";
import type { HttpOrigin, HttpRequest } from "./http-connection.ts";
import { refusalOf } from "./http-proxy.ts";
import { openTunnel } from "./http-tunnel.ts";
import type { HttpResponse, ResponseTarget } from "./response-reader.ts";
import { StaleConnectionFailure } from "./retry.ts";
import { Turnstile } from "./turnstile.ts";
import type { RequestLoad } from "./turnstile.ts";

/** The end of an answer whose beginning has filled its target. */
export interface BodyRest {
  /** Not for long: the endpoint may lose patience, and so do we. */
  isThere(): boolean;
  /** Fills the next target; returns what is left then. */
  readOn(target: ResponseTarget, signal: AbortSignal): Promise<BodyRest | undefined>;
  close(): void;
}

export interface PooledResponse extends HttpResponse {
  readonly rest: BodyRest | undefined;
}

/**
 * Keep-alive connections to one origin, the last used first. A request takes a place of the limit
 * until its answer is complete, or has filled its target. Connections with a half-read answer come
 * on top of the limit: whoever keeps the rests bounds their number.
 */
export class HttpPool {
  readonly #origin: HttpOrigin;
  readonly #turnstile: Turnstile;
  readonly #idle: HttpConnection[] = [];

  constructor(origin: HttpOrigin, connectionsMax: number) {
    this.#origin = origin;
    this.#turnstile = new Turnstile(connectionsMax);
  }

  async exchange(request: HttpRequest, signal: AbortSignal): Promise<PooledResponse> {
    using _place = await this.#turnstile.enter(loadOf(request), signal);
    return await this.#exchangeChecked(request, signal);
  }

  close(): void {
    for (const connection of this.#idle.splice(0)) connection.close();
  }

  async #exchangeChecked(request: HttpRequest, signal: AbortSignal): Promise<PooledResponse> {
    const response = await this.#exchangeOnce(request, signal);
    const { proxy } = this.#origin;
    if (proxy !== undefined && response.status === 407) throw refusalOf(proxy);
    return response;
  }

  async #exchangeOnce(request: HttpRequest, signal: AbortSignal): Promise<PooledResponse> {
    for (;;) {
      const connection = this.#takeIdle() ?? (await this.#connect(signal));
      try {
        const response = await connection.exchange(request, signal);
        return { ...response, rest: this.#restOn(connection) };
      } catch (error) {
        const { wentStale, wentSilent } = connection;
        connection.close();
        signal.throwIfAborted();
        // The idle connections were used longer ago than this one: they are as dead.
        if (wentStale || wentSilent) this.close();
        if (!wentStale || !(error instanceof Failure)) throw error;
        // A write may have been executed before the connection broke: the sender has to look.
        if (!request.repeatable) throw new StaleConnectionFailure(error.message, error);
      }
    }
  }

  /** A rest waits outside of the limit: it may never be asked for, and would block others. */
  #restOn(connection: HttpConnection): BodyRest | undefined {
    if (connection.usable) this.#idle.push(connection);
    if (!connection.halted) return undefined;
    return {
      isThere: () => connection.halted,
      close: () => connection.close(),
      readOn: async (target, signal) => {
        try {
          using _place = await this.#turnstile.enter("download", signal);
          // The connection was given up while this read waited for its place: no outage.
          if (!connection.halted) throw new StaleConnectionFailure("the answer was cut off");
          await connection.goOn(target, signal);
          return this.#restOn(connection);
        } catch (error) {
          connection.close();
          throw error;
        }
      },
    };
  }

  #takeIdle(): HttpConnection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || connection.usable) return connection;
    }
  }

  async #connect(signal: AbortSignal): Promise<HttpConnection> {
    const { proxy, tls } = this.#origin;
    if (proxy === undefined || !tls) return new HttpConnection(this.#origin);
    const tunnel = await openTunnel(this.#origin, proxy, signal);
    try {
      return new HttpConnection(this.#origin, tunnel);
    } catch (error) {
      tunnel.destroy(); // certificate authorities that can't be read
      throw error;
    }
  }
}

function loadOf({ method, responseTarget }: HttpRequest): RequestLoad {
  if (method === "PUT") return "upload";
  return responseTarget === undefined ? "small" : "download";
}

import { HttpConnection } from "./http-connection.ts";
import type { HttpOrigin, HttpRequest } from "./http-connection.ts";
import { refusalOf } from "./http-proxy.ts";
import { openTunnel } from "./http-tunnel.ts";
import type { HttpResponse, ResponseTarget } from "./response-reader.ts";

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

/** Keep-alive connections to one origin: the last used first, never more than the limit. */
export class HttpPool {
  readonly #origin: HttpOrigin;
  readonly #connectionsMax: number;
  readonly #idle: HttpConnection[] = [];
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  constructor(origin: HttpOrigin, connectionsMax: number) {
    this.#origin = origin;
    this.#connectionsMax = connectionsMax;
  }

  async exchange(request: HttpRequest, signal: AbortSignal): Promise<PooledResponse> {
    await this.#enter(signal);
    try {
      const response = await this.#exchangeOnce(request, signal);
      const { proxy } = this.#origin;
      if (proxy !== undefined && response.status === 407) throw refusalOf(proxy);
      return response;
    } finally {
      this.#leave();
    }
  }

  close(): void {
    for (const connection of this.#idle.splice(0)) connection.close();
  }

  async #exchangeOnce(request: HttpRequest, signal: AbortSignal): Promise<PooledResponse> {
    for (;;) {
      const connection = this.#takeIdle() ?? (await this.#connect(signal));
      try {
        const response = await connection.exchange(request, signal);
        return { ...response, rest: this.#restOn(connection) };
      } catch (error) {
        connection.close();
        signal.throwIfAborted();
        // It went stale in the pool: not a failure of the endpoint, and the next one is younger.
        // A POST may have been done before it did: whoever sent it has to look.
        if (!connection.usedBefore || request.method === "POST") throw error;
      }
    }
  }

  /** It waits outside of the limit: nobody knows whether anybody comes for it. */
  #restOn(connection: HttpConnection): BodyRest | undefined {
    if (connection.usable) this.#idle.push(connection);
    if (!connection.halted) return undefined;
    return {
      isThere: () => connection.halted,
      close: () => connection.close(),
      readOn: async (target, signal) => {
        await this.#enter(signal);
        try {
          await connection.goOn(target, signal);
          return this.#restOn(connection);
        } catch (error) {
          connection.close();
          throw error;
        } finally {
          this.#leave();
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
    return new HttpConnection(this.#origin, await openTunnel(this.#origin, proxy, signal));
  }

  async #enter(signal: AbortSignal): Promise<void> {
    if (this.#busy < this.#connectionsMax) {
      this.#busy += 1;
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve); // the one who leaves passes its place on
    await promise;
    if (!signal.aborted) return;
    this.#leave();
    throw signal.reason;
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#busy -= 1;
    else next();
  }
}

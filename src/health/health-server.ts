import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";

/** Each gives problems in words; none is health. */
export interface HealthChecks {
  /** What only a restart mends: the kubelet kills us for it. */
  alive(signal: AbortSignal): Promise<readonly string[]>;
  /** What we wait for, or what others have to mend. */
  ready(signal: AbortSignal): Promise<readonly string[]>;
  /** Remarks that are no problems, for `/readyz?verbose`. */
  notes?(): readonly string[];
}

export interface HealthServer extends AsyncDisposable {
  readonly port: number;
}

const CHECK_WITHIN_MS = 2_000;
/** Anybody in the cluster may ask: a few slow clients must not use up what the kubelet needs. */
const CONNECTIONS_MAX = 64;
const REQUEST_WITHIN_MS = 5_000;

/** `/healthz` and `/readyz`: 200 `ok`, or 503 with a line per problem; `?verbose` adds notes. */
export async function serveHealth(
  port: number,
  checks: HealthChecks,
  log: Log,
): Promise<HealthServer> {
  const pages = new Map([
    ["/healthz", new Page("healthz", (signal) => checks.alive(signal), log)],
    ["/readyz", new Page("readyz", (signal) => checks.ready(signal), log)],
  ]);
  const server = createServer({ requestTimeout: REQUEST_WITHIN_MS }, (request, response) => {
    const [path = "", query] = (request.url ?? "").split("?");
    const notes = path === "/readyz" && query === "verbose" ? (checks.notes?.() ?? []) : [];
    const tail = notes.map((note) => `note: ${note}\n`).join("");
    const page = pages.get(path);
    const reads = request.method === "GET" || request.method === "HEAD";
    response.setHeader("Content-Type", "text/plain; charset=utf-8");
    response.setHeader("Connection", "close");
    if (page === undefined) response.writeHead(404).end();
    else if (!reads) response.writeHead(405).end();
    else void page.answer().then(({ status, text }) => response.writeHead(status).end(text + tail));
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.listen(port);
  await once(server, "listening").catch((error: Error) => {
    throw new Failure("invalid", `--health-port ${port}: ${error.message}`, error);
  });
  const bound = (server.address() as AddressInfo).port;
  log.info({ port: bound }, "serving health");
  return {
    port: bound,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

/** The kubelet's events show a status alone: the log tells why, once per change. */
class Page {
  readonly #name: string;
  readonly #check: HealthChecks["alive"];
  readonly #log: Log;
  #told = "";

  constructor(name: string, check: HealthChecks["alive"], log: Log) {
    this.#name = name;
    this.#check = check;
    this.#log = log;
  }

  async answer(): Promise<{ readonly status: number; readonly text: string }> {
    const problems = await this.#problems();
    const text = problems.length === 0 ? "ok\n" : problems.map((line) => `${line}\n`).join("");
    if (text !== this.#told) {
      this.#told = text;
      const level = problems.length === 0 ? "info" : "warn";
      this.#log[level]({ page: this.#name, problems }, "health changed");
    }
    return { status: problems.length === 0 ? 200 : 503, text };
  }

  async #problems(): Promise<readonly string[]> {
    try {
      return await this.#check(AbortSignal.timeout(CHECK_WITHIN_MS));
    } catch (error) {
      this.#log.error({ page: this.#name, err: error }, "a health check failed itself");
      return ["the check itself failed: see the log"];
    }
  }
}

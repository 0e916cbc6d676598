import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { request } from "node:https";
import type { AddressInfo } from "node:net";
import type { KubeAccess } from "../../src/kube/kube-access.ts";

/** The real API server, behind one that is overloaded, broken or forgetful while it is told to. */
export class FaultyServer implements AsyncDisposable {
  readonly #server = createServer((from, to) => this.#serve(from, to));
  readonly #access: KubeAccess;
  readonly #watches = new Set<ServerResponse>();
  #faults: "none" | "some" | "all" = "none";
  #count = 0;
  /** Answers of each kind. */
  readonly given = { 429: 0, 500: 0, 410: 0, lost: 0 };

  constructor(access: KubeAccess) {
    this.#access = access;
  }

  async access(): Promise<KubeAccess> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    const { port } = this.#server.address() as AddressInfo;
    return {
      ...this.#access,
      server: new URL(`http://127.0.0.1:${port}`),
      headers: () => this.#access.headers(),
    };
  }

  /** Watches end too, so that they must be opened anew, and meet the faults. */
  start(faults: "some" | "all"): void {
    this.#faults = faults;
    for (const watch of this.#watches) watch.destroy();
  }

  stop(): void {
    this.#faults = "none";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #serve(from: IncomingMessage, to: ServerResponse): void {
    const isWatch = from.url?.includes("watch=true") === true;
    if (isWatch) {
      this.#watches.add(to);
      to.on("close", () => this.#watches.delete(to));
    }
    if (this.#faults === "none") return this.#forward(from, to, false);
    this.#count += 1;
    if (this.#faults === "all") return this.#answer(to, this.#count % 2 === 0 ? 429 : 500);
    const turn = this.#count % 5;
    if (turn === 1) return this.#answer(to, 429);
    if (turn === 2) return this.#answer(to, 500);
    if (turn === 3 && isWatch) return this.#answer(to, 410);
    this.#forward(from, to, turn === 4 && !isWatch);
  }

  #answer(to: ServerResponse, status: 429 | 500 | 410): void {
    this.given[status] += 1;
    const body = { kind: "Status", apiVersion: "v1", code: status, message: "injected" };
    to.writeHead(status, { "Content-Type": "application/json", "Retry-After": "1" });
    to.end(JSON.stringify(body));
  }

  /** `lost`: the work is done, and nobody hears of it. */
  #forward(from: IncomingMessage, to: ServerResponse, lost: boolean): void {
    const { server, tls } = this.#access;
    const { hostname, port } = server;
    const { url: path = "/", method, headers } = from;
    const far = request({ ...tls, hostname, port, path, method, headers, agent: false });
    far.on("response", (answer) => {
      answer.on("error", () => to.destroy());
      if (lost) {
        answer.resume().on("end", () => this.#lose(to));
      } else {
        to.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(to);
      }
    });
    far.on("error", () => to.destroy());
    to.on("close", () => far.destroy());
    from.pipe(far);
  }

  #lose(to: ServerResponse): void {
    this.given.lost += 1;
    to.destroy();
  }
}

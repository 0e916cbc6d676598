import { once } from "node:events";
import { createServer, request as httpRequest } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect } from "node:net";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";

const FORBIDDEN = "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";

/** What stands between many a network and the rest: CONNECT, and requests in absolute form. */
export class ForwardProxy implements AsyncDisposable {
  /** What it was asked for: `GET http://…`, `CONNECT host:port`. */
  readonly asked: string[] = [];
  readonly #server = createServer((request, response) => this.#forward(request, response));
  readonly #open = new Set<Duplex>();
  readonly #wanted: string | undefined;

  /** With a user and password, nobody else is served. */
  private constructor(userAndPassword: string | undefined) {
    const encoded = userAndPassword && Buffer.from(userAndPassword).toString("base64");
    this.#wanted = encoded && `Basic ${encoded}`;
    this.#server.on("connection", (socket: Socket) => this.#open.add(socket));
    this.#server.on("connect", (request: IncomingMessage, client: Duplex) => {
      this.#tunnel(request, client);
    });
  }

  static async start(userAndPassword?: string): Promise<ForwardProxy> {
    const proxy = new ForwardProxy(userAndPassword);
    await once(proxy.#server.listen(0, "127.0.0.1"), "listening");
    return proxy;
  }

  get authority(): string {
    const address = this.#server.address();
    return `127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    this.#server.close();
  }

  #serves(request: IncomingMessage): boolean {
    this.asked.push(`${request.method} ${request.url}`);
    return this.#wanted === undefined || request.headers["proxy-authorization"] === this.#wanted;
  }

  #forward(request: IncomingMessage, response: ServerResponse): void {
    if (!this.#serves(request)) {
      response.writeHead(407, { "content-length": 0 }).end();
      return;
    }
    const { "proxy-authorization": _, ...headers } = request.headers;
    const upstream = httpRequest(request.url ?? "", { method: request.method, headers });
    upstream.on("response", (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    upstream.on("error", () => response.destroy());
    request.pipe(upstream);
  }

  #tunnel(request: IncomingMessage, client: Duplex): void {
    if (!this.#serves(request)) {
      client.end(FORBIDDEN);
      return;
    }
    const { hostname, port } = new URL(`http://${request.url}`);
    const upstream = connect(Number(port), hostname, () => {
      client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      client.pipe(upstream).pipe(client);
    });
    this.#open.add(upstream);
    client.on("error", () => upstream.destroy());
    upstream.on("error", () => client.destroy());
  }
}

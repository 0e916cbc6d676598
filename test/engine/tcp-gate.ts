import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { Server, Socket } from "node:net";

/**
 * A way to a server that can be shut: then every connection is cut in the middle of a byte stream
 * and new ones are refused by the kernel, as when the endpoint's machine has gone.
 */
export class TcpGate implements AsyncDisposable {
  readonly #target: URL;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #port = 0;

  private constructor(target: string) {
    this.#target = new URL(target);
  }

  static async start(target: string): Promise<TcpGate> {
    const gate = new TcpGate(target);
    await gate.open();
    return gate;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async open(): Promise<void> {
    const server = createServer((client) => this.#pass(client));
    this.#server = server;
    await once(server.listen(this.#port, "127.0.0.1"), "listening");
    const address = server.address();
    if (address !== null && typeof address === "object") this.#port = address.port;
  }

  async shut(): Promise<void> {
    const closed = this.#server?.close();
    for (const socket of this.#sockets) socket.destroy();
    if (closed?.listening === true) await once(closed, "close");
    this.#server = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.shut();
  }

  #pass(client: Socket): void {
    const upstream = connect({ host: this.#target.hostname, port: Number(this.#target.port) });
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    client.pipe(upstream).pipe(client);
  }
}

import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";

/** A way to the S3 server that counts what the server sends, headers included. */
export class CountingProxy implements AsyncDisposable {
  readonly #server = createServer();
  readonly #sockets = new Set<Socket>();
  #receivedBytes = 0;

  private constructor(target: URL) {
    this.#server.on("connection", (client) => {
      const upstream = connect(Number(target.port), target.hostname);
      upstream.on("data", (chunk: Buffer) => (this.#receivedBytes += chunk.length));
      client.pipe(upstream).pipe(client);
      this.#tie(client, upstream);
      this.#tie(upstream, client);
    });
  }

  static async start(target: string): Promise<CountingProxy> {
    const proxy = new CountingProxy(new URL(target));
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  /** One end's end is the other's. */
  #tie(socket: Socket, other: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => other.destroy());
    socket.on("close", () => {
      this.#sockets.delete(socket);
      other.destroy();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }
}

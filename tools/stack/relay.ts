import { once } from "node:events";
import { Agent, createServer, request as httpRequest } from "node:http";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";

export interface RelayedAnswer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

/** The part of a request that goes on to the target: all of it, unless a proxy changes it. */
export interface RelayedRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders | Record<string, string>;
}

/** An HTTP server in front of another one: the base of the proxies between an engine and S3. */
export abstract class Relay implements AsyncDisposable {
  readonly #agent = new Agent({ keepAlive: true });
  readonly #server = createServer((request, response) => {
    this.serve(request, response).catch(() => request.socket.destroy());
  });
  readonly #target: URL;

  protected constructor(target: string) {
    this.#target = new URL(target);
  }

  /** Answers one request. The connection is cut when it fails. */
  protected abstract serve(request: IncomingMessage, response: ServerResponse): Promise<void>;

  protected async listen(): Promise<this> {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    return this;
  }

  get url(): string {
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
  }

  get openConnections(): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#server.getConnections((_, count) => resolve(count));
    return promise;
  }

  /** The target's answer. Its `content-length` is that of the body, except for a HEAD. */
  protected async forward(
    { method, url, headers }: RelayedRequest,
    body: Buffer,
  ): Promise<RelayedAnswer> {
    const { hostname, port } = this.#target;
    const to = { hostname, port, method, path: url, headers, agent: this.#agent };
    const upstream = httpRequest(to);
    // A target may answer before it has read the body, and then reset the connection. `once` below
    // listens for errors only until the answer; a later error concerns the body, which is over.
    upstream.on("error", () => {});
    upstream.end(body);
    const [answer] = (await once(upstream, "response")) as [IncomingMessage];
    const passed: Record<string, string> = {};
    for (const [name, value] of Object.entries(answer.headers)) {
      if (typeof value === "string" && name !== "transfer-encoding") passed[name] = value;
    }
    const content = await bodyOf(answer);
    if (method !== "HEAD") passed["content-length"] = String(content.length);
    return { status: answer.statusCode ?? 502, headers: passed, body: content };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    this.#agent.destroy();
  }
}

/** The key in a path-style URL. The bucket comes first in the path; its own key is empty. */
export function keyOf({ url = "" }: RelayedRequest): string {
  const [path = ""] = url.split("?");
  return decodeURIComponent(path.split("/").slice(2).join("/"));
}

export async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

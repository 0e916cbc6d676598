import { once } from "node:events";
import { createServer, request as httpRequest } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";

export const FAULTS = [
  "drop the request",
  "lose the answer",
  "delay",
  "truncate",
  "500",
  "503",
  "announce more",
  "announce less",
] as const;
export type Fault = (typeof FAULTS)[number];

interface Answer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

/** Between engine and S3: passes everything on, except when `decide` wants something to break. */
export class FaultProxy implements AsyncDisposable {
  readonly counts = new Map<Fault, number>();
  readonly #server = createServer((request, response) => {
    this.#serve(request, response).catch(() => request.socket.destroy());
  });
  readonly #target: URL;
  readonly #decide: (request: IncomingMessage) => Fault | undefined;

  private constructor(target: string, decide: (request: IncomingMessage) => Fault | undefined) {
    this.#target = new URL(target);
    this.#decide = decide;
  }

  static async start(target: string, decide: (request: IncomingMessage) => Fault | undefined) {
    const proxy = new FaultProxy(target, decide);
    await once(proxy.#server.listen(0, "127.0.0.1"), "listening");
    return proxy;
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

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const fault = this.#decide(request);
    if (fault !== undefined) this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
    if (fault === "drop the request") {
      request.socket.destroy();
      return;
    }
    const body = await bodyOf(request);
    if (fault === "delay") await delay(300);
    if (fault === "500" || fault === "503") {
      response.writeHead(Number(fault), { "content-length": 0 });
      response.end();
      return;
    }
    await this.#answer(request, response, await this.#forward(request, body), fault);
  }

  async #forward({ method, url, headers }: IncomingMessage, body: Buffer): Promise<Answer> {
    const { hostname, port } = this.#target;
    const upstream = httpRequest({ hostname, port, method, path: url, headers });
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

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    answer: Answer,
    fault: Fault | undefined,
  ): Promise<void> {
    const { status, headers, body } = answer;
    const lies = request.method !== "HEAD" && status !== 204;
    const more = { "announce more": 10, "announce less": -Math.min(10, body.length) };
    if (lies && (fault === "announce more" || fault === "announce less")) {
      headers["content-length"] = String(body.length + more[fault]);
    }
    if (fault === "lose the answer") {
      request.socket.destroy();
      return;
    }
    response.writeHead(status, headers);
    if (lies && fault === "truncate") response.write(body.subarray(0, body.length / 2));
    else response.write(body);
    if (fault !== "truncate" && fault !== "announce more") {
      response.end();
      return;
    }
    await delay(50); // what was written shall arrive before the end does
    request.socket.destroy();
  }
}

async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

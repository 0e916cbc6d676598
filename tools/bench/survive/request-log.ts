import { once } from "node:events";
import { createServer, request as httpRequest } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** One part of one upload, as the S3 server was asked to take it. */
export interface PartRequest {
  readonly part: string;
  status: number | undefined;
}

/** A way to the S3 server that writes down which parts are sent. */
export class RequestLog implements AsyncDisposable {
  /** In the order in which they came. */
  readonly parts: PartRequest[] = [];
  readonly #target: URL;
  readonly #server = createServer((request, response) => this.#pass(request, response));

  private constructor(target: string) {
    this.#target = new URL(target);
  }

  static async start(target: string): Promise<RequestLog> {
    const log = new RequestLog(target);
    await once(log.#server.listen(0, "127.0.0.1"), "listening");
    return log;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** How many parts S3 has taken more than once. */
  get takenTwice(): number {
    const taken = this.parts.filter(({ status }) => status === 200).map(({ part }) => part);
    return taken.length - new Set(taken).size;
  }

  #pass(request: IncomingMessage, response: ServerResponse): void {
    const { method, url: path = "", headers } = request;
    const query = new URL(path, this.#target).searchParams;
    const [uploadId, number] = [query.get("uploadId"), query.get("partNumber")];
    const entry = { part: nameOf(uploadId ?? "", Number(number)), status: undefined };
    if (method === "PUT" && number !== null) this.parts.push(entry);
    const { hostname, port } = this.#target;
    const upstream = httpRequest({ hostname, port, method, path, headers });
    upstream.on("response", (answer) => this.#answer(entry, answer, response));
    upstream.on("error", () => response.destroy());
    response.on("close", () => upstream.destroy());
    request.pipe(upstream);
  }

  #answer(entry: PartRequest, answer: IncomingMessage, response: ServerResponse): void {
    entry.status = answer.statusCode;
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }
}

export function nameOf(uploadId: string, part: number): string {
  return `${uploadId} ${part}`;
}

import { once } from "node:events";
import http from "node:http";
import https from "node:https";
import type { AddressInfo } from "node:net";

/** What happens to a request. `lost`: it is done, and its answer never arrives. */
export const FAULTS = ["500", "503", "hang", "reset", "lost"] as const;
/** 404: an ingress has no route to the server. 501: the server has no such call. */
export type Fault = (typeof FAULTS)[number] | "404" | "501";

/** What the server says instead of doing it. */
export interface Saying {
  readonly status: number;
  readonly code: string;
}

export interface Passing {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<http.IncomingHttpHeaders>;
}

type Verdict = Fault | Saying | undefined;

/** Asked before a request is passed on. */
export type Judge = (request: Passing) => Verdict | Promise<Verdict>;

interface Options {
  readonly target: URL;
  readonly tls?: https.AgentOptions;
  readonly judge: Judge;
  /** Called when it has been done and its answer is not yet passed back. */
  readonly done?: (request: Passing) => void | Promise<void>;
}

/**
 * A server between client and server that fails as it is told. It changes no bytes otherwise. Not
 * by resetAndDestroy(): a socket that is destroyed once more meanwhile makes Node spin at its end.
 */
export class FaultyLine implements AsyncDisposable {
  readonly #options: Options;
  readonly #server: http.Server;
  readonly #agent: http.Agent;

  constructor(options: Options) {
    this.#options = options;
    const secure = options.target.protocol === "https:";
    this.#agent = secure
      ? new https.Agent({ keepAlive: true, ...options.tls })
      : new http.Agent({ keepAlive: true });
    this.#server = http.createServer((request, response) => void this.#pass(request, response));
  }

  async listen(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    this.#agent.destroy();
    await once(this.#server, "close");
  }

  async #pass(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { method = "", url: path = "", headers } = request;
    const fault = await this.#options.judge({ method, path, headers });
    if (fault === "500" || fault === "501" || fault === "503") {
      response.writeHead(Number(fault), { connection: "close" }).end();
      request.resume();
    } else if (fault === "404") {
      response.writeHead(404, { "content-type": "text/plain" }).end("404 page not found\n");
      request.resume();
    } else if (typeof fault === "object") {
      const document = `<Error><Code>${fault.code}</Code><Message>said so</Message></Error>`;
      response.writeHead(fault.status, { "content-type": "application/xml" }).end(document);
      request.resume();
    } else if (fault === "reset") {
      request.socket.destroy();
    } else if (fault !== "hang") {
      this.#forward(request, response, fault === "lost");
    }
  }

  #forward(request: http.IncomingMessage, response: http.ServerResponse, isLost: boolean): void {
    const { target, done } = this.#options;
    const { method = "", url: path = "", headers } = request;
    const client = target.protocol === "https:" ? https : http;
    const options = { agent: this.#agent, method, headers };
    const forwarded = client.request(new URL(path, target), options, async (answer) => {
      await done?.({ method, path, headers });
      if (isLost) {
        answer.resume();
        request.socket.destroy();
        return;
      }
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
      response.once("close", () => answer.destroy());
    });
    forwarded.once("error", () => response.destroy());
    request.pipe(forwarded);
  }
}

import type { IncomingMessage, ServerResponse } from "node:http";
import { bodyOf, keyOf, Relay } from "../../tools/stack/relay.ts";
import type { RelayedAnswer } from "../../tools/stack/relay.ts";

type Rewrite = (
  request: IncomingMessage,
  answer: RelayedAnswer,
) => RelayedAnswer | Promise<RelayedAnswer>;

/** Between engine and S3: counts the requests, and changes answers as `rewrite` says. */
export class RewritingProxy extends Relay {
  /** Every request, as `GET key`; the key of a listing is empty. */
  readonly requests: string[] = [];
  rewrite: Rewrite = (_, answer) => answer;

  static start(target: string): Promise<RewritingProxy> {
    return new RewritingProxy(target).listen();
  }

  /** The requests since the last call. */
  take(): string[] {
    return this.requests.splice(0);
  }

  protected async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request);
    this.requests.push(`${request.method} ${keyOf(request)}`);
    const answer = await this.rewrite(request, await this.forward(request, body));
    const length =
      request.method === "HEAD" ? {} : { "content-length": String(answer.body.length) };
    response.writeHead(answer.status, { ...answer.headers, ...length });
    response.end(answer.body);
  }
}

import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { bodyOf, Relay } from "../../tools/stack/relay.ts";
import type { RelayedAnswer } from "../../tools/stack/relay.ts";

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

/** Between engine and S3: passes everything on, except when `decide` wants something to break. */
export class FaultProxy extends Relay {
  readonly counts = new Map<Fault, number>();
  /** A request is passed on when the promise for it resolves. */
  hold: (request: IncomingMessage) => Promise<unknown> | undefined = () => undefined;
  readonly #decide: (request: IncomingMessage) => Fault | undefined;

  private constructor(target: string, decide: (request: IncomingMessage) => Fault | undefined) {
    super(target);
    this.#decide = decide;
  }

  static start(target: string, decide: (request: IncomingMessage) => Fault | undefined) {
    return new FaultProxy(target, decide).listen();
  }

  protected async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const fault = this.#decide(request);
    if (fault !== undefined) this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
    if (fault === "drop the request") {
      request.socket.destroy();
      return;
    }
    const body = await bodyOf(request);
    await this.hold(request);
    if (fault === "delay") await delay(300);
    if (fault === "500" || fault === "503") {
      response.writeHead(Number(fault), { "content-length": 0 });
      response.end();
      return;
    }
    await this.#answer(request, response, await this.forward(request, body), fault);
  }

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    answer: RelayedAnswer,
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

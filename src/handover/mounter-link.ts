import { closeSync } from "node:fs";
import { Socket } from "node:net";
import { Failure } from "../base/failure.ts";
import { SystemError } from "../sys/libc.ts";
import { connectUnix, peerCredentialsOf, sendWithFds } from "../sys/unix-socket.ts";
import type { PeerCredentials } from "../sys/unix-socket.ts";
import { HandoverAnswer, LineBuffer, decodeLine, encodeLine } from "./messages.ts";
import type { HandoverRequest, MountRequest } from "./messages.ts";

/** What is quoted of a peer that breaks the protocol: its words end up in a pod's events. */
const REASON_CHARACTERS_MAX = 300;

/** The node service's end. The peer is a pod that may be hostile: nothing it says names a mount. */
export class MounterLink implements Disposable {
  readonly #fd: number;
  readonly #socket: Socket;
  #waiting: PromiseWithResolvers<HandoverAnswer> | undefined;
  #closed: Failure | undefined;

  /** `accept` throws when the peer is not who it should be. */
  constructor(socketPath: string, accept: (peer: PeerCredentials) => void) {
    this.#fd = connectUnix(socketPath);
    try {
      accept(peerCredentialsOf(this.#fd));
      this.#socket = new Socket({ fd: this.#fd, readable: true, writable: true });
    } catch (error) {
      closeSync(this.#fd);
      throw error;
    }
    this.#socket.on("error", () => {}); // "close" follows and tells
    this.#socket.once("close", () => {
      this.#close(new Failure("remote", "the mounter closed the connection"));
    });
    this.#listen();
  }

  /** False: the mounter has ended, or has broken the protocol. */
  get isOpen(): boolean {
    return this.#closed === undefined;
  }

  /** Resolves when the engine serves; a Failure says why it does not. The fds stay the caller's. */
  async mount(request: MountRequest, fds: readonly number[], signal: AbortSignal): Promise<void> {
    const answer = await this.#ask(request, fds, signal);
    if (answer.did === "ready") return;
    if (answer.did === "failed") throw new Failure(answer.kind, answer.message);
    throw new Failure("remote", "the mounter ended before it served");
  }

  /** Resolves when everything acknowledged is in S3 and the engine has ended. */
  async finish(signal: AbortSignal): Promise<void> {
    const answer = await this.#ask({ do: "finish" }, [], signal);
    if (answer.did === "failed") throw new Failure(answer.kind, answer.message);
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  async #ask(
    request: HandoverRequest,
    fds: readonly number[],
    signal: AbortSignal,
  ): Promise<HandoverAnswer> {
    if (this.#waiting !== undefined)
      throw new Failure("busy", "the mounter is being asked already");
    if (this.#closed !== undefined) throw this.#closed;
    const waiting = Promise.withResolvers<HandoverAnswer>();
    // An answer that comes late would be taken for the next one's: the connection is over.
    const abort = () => this.#end(new Failure("timeout", "the mounter did not answer in time"));
    signal.addEventListener("abort", abort, { once: true });
    this.#waiting = waiting;
    try {
      if (signal.aborted) abort();
      else this.#send(request, fds);
      return await waiting.promise;
    } finally {
      signal.removeEventListener("abort", abort);
      this.#waiting = undefined;
    }
  }

  #send(request: HandoverRequest, fds: readonly number[]): void {
    try {
      sendWithFds(this.#fd, encodeLine(request), fds);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      this.#end(new Failure("remote", `the mounter takes no request: ${error.code}`, error));
    }
  }

  #listen(): void {
    const lines = new LineBuffer();
    this.#socket.on("data", (bytes: Buffer) => {
      try {
        for (const line of lines.add(bytes)) this.#take(decodeLine(HandoverAnswer, line));
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        const said = reason.slice(0, REASON_CHARACTERS_MAX);
        this.#end(new Failure("remote", `the mounter broke the protocol: ${said}`));
      }
    });
  }

  /** Who talks without being asked is not listened to, or could keep this process busy. */
  #take(answer: HandoverAnswer): void {
    if (this.#waiting === undefined) throw new Failure("invalid", "an answer without a question");
    this.#waiting.resolve(answer);
    this.#waiting = undefined;
  }

  #end(reason: Failure): void {
    this.#close(reason);
    this.#socket.destroy();
  }

  #close(reason: Failure): void {
    this.#closed ??= reason;
    this.#waiting?.reject(this.#closed);
  }
}

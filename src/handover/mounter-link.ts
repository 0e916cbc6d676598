import { closeSync } from "node:fs";
import { Socket } from "node:net";
import { Failure } from "../base/failure.ts";
import { LineBuffer } from "../base/line-buffer.ts";
import { within } from "../base/within.ts";
import { SystemError } from "../sys/libc.ts";
import { ProcessHandle } from "../sys/process-handle.ts";
import {
  connectUnix,
  dropSocket,
  peerCredentialsOf,
  receiveWithFds,
  refuseDescriptors,
  sendWithFds,
  socketPair,
} from "../sys/unix-socket.ts";
import type { PeerCredentials } from "../sys/unix-socket.ts";
import { MESSAGE_BYTES_MAX, decodeMounterLine, encodeLine } from "./messages.ts";
import type {
  Credentials,
  HandoverAnswer,
  HandoverNote,
  HandoverRequest,
  MountSpec,
} from "./messages.ts";
import { NoteLimit } from "./note-limit.ts";

/** What is quoted of a peer that breaks the protocol: its words end up in a pod's events. */
const REASON_CHARACTERS_MAX = 300;

/** What a mounter gave back. The descriptors are the receiver's, and not yet looked at. */
export interface Shared {
  readonly spec: MountSpec;
  readonly fds: readonly number[];
}

/** The node service's end. The peer is a pod that may be hostile: nothing it says names a mount. */
export class MounterLink implements Disposable {
  /** Resolves when the mounter has ended, or has broken the protocol. */
  readonly closed: Promise<void>;
  /** The process at the other end, whatever becomes of the connection. */
  readonly process: ProcessHandle;
  /** Hears what the mounter says unasked. */
  onNote: ((note: HandoverNote) => void) | undefined;
  readonly #fd: number;
  readonly #socket: Socket;
  readonly #notes = new NoteLimit();
  readonly #closing = Promise.withResolvers<void>();
  #waiting: PromiseWithResolvers<HandoverAnswer> | undefined;
  /** The last question's end, while there is one: the next waits for it. */
  #conversation: Promise<void> | undefined;
  #closed: Failure | undefined;

  /** `accept` throws when the peer is not who it should be. */
  constructor(socketPath: string, accept: (peer: PeerCredentials) => void) {
    this.closed = this.#closing.promise;
    this.#fd = connectUnix(socketPath);
    refuseDescriptors(this.#fd); // the loop that reads from here would have to close them
    try {
      const peer = peerCredentialsOf(this.#fd);
      this.process = new ProcessHandle(peer.pid); // first: whom we look at is whom we may kill
      try {
        accept(peer);
      } catch (error) {
        this.process[Symbol.dispose]();
        throw error;
      }
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

  /** Resolves when every question so far is answered: the next one is sent at once. */
  async untilQuiet(): Promise<void> {
    await this.#conversation;
  }

  /** Resolves when the engine serves; a Failure says why it does not. The fds stay the caller's. */
  async mount(
    spec: MountSpec,
    fds: readonly number[],
    how: { readonly resume: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const answer = await this.#ask({ do: "mount", ...how, ...spec }, fds, signal);
    if (answer.did !== "ready") throw unexpected(answer, "the mounter ended before it served");
  }

  /** From now on the engine signs with these. */
  async rekey(credentials: Credentials | null, signal: AbortSignal): Promise<void> {
    const answer = await this.#ask({ do: "rekey", credentials }, [], signal);
    if (answer.did !== "rekeyed") throw unexpected(answer, "the mounter did not take the keys");
  }

  /**
   * Copies of the descriptors of what is served there, if anything is. They come through a socket
   * of their own, before the answer: so nobody has to wait for them in a thread.
   */
  async share(signal: AbortSignal): Promise<Shared | undefined> {
    const { mine, theirs } = socketPair();
    try {
      const asked = this.#ask({ do: "share" }, [theirs], signal);
      const answer = await asked.finally(() => closeSync(theirs));
      if (answer.did !== "shared") throw unexpected(answer, "the mounter did not share its mount");
      if (answer.mount === null) return undefined;
      const spec = answer.mount;
      return { spec, fds: spec.engine === undefined ? receiveShared(mine) : [] };
    } finally {
      dropSocket(mine);
    }
  }

  /** Resolves when every file that was closed is in S3 and the engine has ended. */
  async finish(signal: AbortSignal): Promise<void> {
    const answer = await this.#ask({ do: "finish" }, [], signal);
    if (answer.did === "finished") return;
    throw unexpected(answer, "the mounter did not say that it has finished");
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
    this.process[Symbol.dispose]();
  }

  /** One at a time, in the order in which they came; the first is sent before this returns. */
  async #ask(
    request: HandoverRequest,
    fds: readonly number[],
    signal: AbortSignal,
  ): Promise<HandoverAnswer> {
    const earlier = this.#conversation;
    const now = () => this.#askNow(request, fds, signal);
    const asked = earlier === undefined ? now() : within(earlier, signal, notInTurn).then(now);
    const over = asked.then(noop, () => earlier); // who gave up in the queue has ended nothing
    this.#conversation = over;
    void over.then(() => {
      if (this.#conversation === over) this.#conversation = undefined;
    });
    return asked;
  }

  async #askNow(
    request: HandoverRequest,
    fds: readonly number[],
    signal: AbortSignal,
  ): Promise<HandoverAnswer> {
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
    const lines = new LineBuffer(MESSAGE_BYTES_MAX);
    this.#socket.on("data", (bytes: Buffer) => {
      try {
        for (const line of lines.add(bytes)) this.#take(decodeMounterLine(line));
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        const said = reason.slice(0, REASON_CHARACTERS_MAX);
        this.#end(new Failure("remote", `the mounter broke the protocol: ${said}`));
      }
    });
  }

  /** Who talks without end is not listened to, or could keep this process busy. */
  #take(line: HandoverAnswer | HandoverNote): void {
    if ("note" in line) {
      if (this.#notes.isOver(performance.now())) throw new Failure("invalid", "too many notes");
      return this.onNote?.(line);
    }
    if (this.#waiting === undefined) throw new Failure("invalid", "an answer without a question");
    this.#waiting.resolve(line);
    this.#waiting = undefined;
  }

  #end(reason: Failure): void {
    this.#close(reason);
    this.#socket.destroy();
  }

  #close(reason: Failure): void {
    this.#closed ??= reason;
    this.#waiting?.reject(this.#closed);
    this.#closing.resolve();
  }
}

function noop(): void {}

function notInTurn(): Failure {
  return new Failure("timeout", "the mounter was busy with an earlier question");
}

function unexpected(answer: HandoverAnswer, otherwise: string): Failure {
  if (answer.did === "failed") return new Failure(answer.kind, answer.message);
  return new Failure("remote", otherwise);
}

function receiveShared(socket: number): readonly number[] {
  try {
    return receiveWithFds(socket, 1).fds;
  } catch (error) {
    throw new Failure("remote", "the mounter sent no descriptors with its mount", error);
  }
}

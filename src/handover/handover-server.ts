import { closeSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import { LineBuffer } from "../base/line-buffer.ts";
import type { Log } from "../base/log.ts";
import { SystemError } from "../sys/libc.ts";
import { closeAll } from "../sys/mount-fds.ts";
import { FOREVER_MS } from "../sys/poll.ts";
import {
  DESCRIPTORS_MAX,
  acceptUnix,
  listenUnix,
  peerCredentialsOf,
  receiveWithFds,
  sendWithFds,
  untilReadable,
} from "../sys/unix-socket.ts";
import { MESSAGE_BYTES_MAX, decodeRequest, encodeLine, failedAnswer } from "./messages.ts";
import type { HandoverAnswer, HandoverNote, HandoverRequest } from "./messages.ts";

const GONE: ReadonlySet<string> = new Set(["EAGAIN", "ECONNABORTED", "EINTR"]);

/** Answers one request. The descriptors are the handler's: it closes what it does not keep. */
export type Handler = (request: HandoverRequest, fds: readonly number[]) => Promise<HandoverAnswer>;

/** The mounter's end: listens for the pod's whole life and serves root of the node alone. */
export class HandoverServer {
  readonly #handle: Handler;
  readonly #log: Log;
  readonly #connections = new Set<number>();

  constructor(handle: Handler, log: Log) {
    this.#handle = handle;
    this.#log = log;
  }

  async listen(path: string): Promise<never> {
    const listener = listenUnix(path);
    this.#log.info({ path }, "waiting for a mount");
    for (;;) {
      if (!(await untilReadable(listener, FOREVER_MS))) continue;
      const connection = acceptIfThere(listener);
      if (connection === undefined) continue;
      const { uid, pid } = peerCredentialsOf(connection);
      if (uid === 0) void this.#converse(connection);
      else {
        this.#log.warn({ uid, pid }, "a connection that is not the node service's was refused");
        closeSync(connection);
      }
    }
  }

  /** Whoever is connected hears of it. Who does not listen misses it: it can ask. */
  tell(note: HandoverNote): void {
    for (const connection of this.#connections) {
      try {
        sendWithFds(connection, encodeLine(note), []);
      } catch (error) {
        this.#log.debug({ err: error, note: note.note }, "the node service was not told");
      }
    }
  }

  async #converse(connection: number): Promise<void> {
    const lines = new LineBuffer(MESSAGE_BYTES_MAX);
    /** They come with the first bytes of a line, which may be complete only later. */
    let waiting: number[] = [];
    this.#connections.add(connection);
    try {
      for (;;) {
        if (!(await untilReadable(connection, FOREVER_MS))) continue;
        const { bytes, fds } = receiveWithFds(connection, MESSAGE_BYTES_MAX);
        if (bytes.length === 0) return;
        waiting.push(...fds);
        if (waiting.length > DESCRIPTORS_MAX) throw new Failure("invalid", "too many descriptors");
        for (const line of lines.add(bytes)) {
          const brought = waiting;
          waiting = [];
          sendWithFds(connection, encodeLine(await answerTo(line, brought, this.#handle)), []);
        }
      }
    } catch (error) {
      this.#log.warn({ err: error }, "a conversation with the node service broke off");
    } finally {
      this.#connections.delete(connection);
      closeAll(waiting);
      closeSync(connection);
    }
  }
}

/** A peer that left while it waited is nobody's fault, and no reason to end. */
function acceptIfThere(listener: number): number | undefined {
  try {
    return acceptUnix(listener);
  } catch (error) {
    const gone = error instanceof SystemError && GONE.has(error.code);
    if (gone) return undefined;
    throw error;
  }
}

async function answerTo(
  line: string,
  fds: readonly number[],
  handle: Handler,
): Promise<HandoverAnswer> {
  try {
    return await handle(requestOf(line, fds), fds);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return failedAnswer(error);
  }
}

function requestOf(line: string, fds: readonly number[]): HandoverRequest {
  try {
    return decodeRequest(line);
  } catch (error) {
    closeAll(fds); // no handler will
    throw error;
  }
}

import { closeSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import {
  acceptUnix,
  listenUnix,
  peerCredentialsOf,
  receiveWithFds,
  sendWithFds,
  untilReadable,
} from "../sys/unix-socket.ts";
import {
  HandoverRequest,
  LineBuffer,
  MESSAGE_BYTES_MAX,
  decodeLine,
  encodeLine,
} from "./messages.ts";
import type { HandoverAnswer } from "./messages.ts";

const FOREVER_MS = -1;

/** Answers one request. The descriptors are the handler's: it closes what it does not keep. */
export type Handler = (request: HandoverRequest, fds: readonly number[]) => Promise<HandoverAnswer>;

/** The mounter's end: listens for the pod's whole life and serves root of the node alone. */
export async function serveHandover(path: string, handle: Handler, log: Log): Promise<never> {
  const listener = listenUnix(path);
  log.info({ path }, "waiting for a mount");
  for (;;) {
    await untilReadable(listener, FOREVER_MS);
    const connection = acceptUnix(listener);
    const { uid, pid } = peerCredentialsOf(connection);
    if (uid === 0) void converse(connection, handle, log);
    else {
      log.warn({ uid, pid }, "a connection that is not the node service's was refused");
      closeSync(connection);
    }
  }
}

async function converse(connection: number, handle: Handler, log: Log): Promise<void> {
  const lines = new LineBuffer();
  try {
    for (;;) {
      await untilReadable(connection, FOREVER_MS);
      const { bytes, fds } = receiveWithFds(connection, MESSAGE_BYTES_MAX);
      if (bytes.length === 0) return;
      const requests = [...lines.add(bytes)];
      if (requests.length === 0) for (const fd of fds) closeSync(fd);
      for (const [index, line] of requests.entries()) {
        const answer = await answerTo(line, index === 0 ? fds : [], handle);
        sendWithFds(connection, encodeLine(answer), []);
      }
    }
  } catch (error) {
    log.warn({ err: error }, "a conversation with the node service broke off");
  } finally {
    closeSync(connection);
  }
}

async function answerTo(
  line: string,
  fds: readonly number[],
  handle: Handler,
): Promise<HandoverAnswer> {
  try {
    return await handle(decodeLine(HandoverRequest, line), fds);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return { did: "failed", kind: error.kind, message: error.message };
  }
}

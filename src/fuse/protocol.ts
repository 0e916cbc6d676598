import type { Buffer } from "node:buffer";
import { OPCODE } from "./opcode.ts";
import { ERRNO, ProtocolError } from "./errno.ts";
import { encodeEntry, encodeOpened, encodeOutHeader } from "./encode.ts";
import type { FileSystem, Outcome } from "./file-system.ts";
import { HANDLERS } from "./handlers.ts";
import type { Answer, Handler } from "./handlers.ts";
import { negotiate } from "./negotiate.ts";
import type { Negotiated } from "./negotiate.ts";
import { readUint64, Request, uniqueKeyOf } from "./request.ts";

/** One message for one writev(2): our 16 bytes, then the payload's own memory. */
export interface Reply {
  readonly chunks: readonly Uint8Array[];
  /** Call it exactly once, when the chunks are no longer needed. */
  settle(delivered: boolean): void;
}

/** Called exactly once per message; undefined means that no reply is due. */
export type Respond = (reply: Reply | undefined) => void;

/**
 * INTERRUPT says that a signal came, not that it was SIGKILL: most programs expect their stat(2)
 * to go on. So a request gets this long to end by itself; only one that hangs is cut off.
 */
const INTERRUPT_GRACE_MS = 2_000;
/** INTERRUPTs beyond this number leave their slots at once: a mount may have 1,024 small slots. */
const KEPT_INTERRUPTS_MAX = 512;
const NEVER = new AbortController().signal;

export interface ProtocolOptions {
  /**
   * Let the kernel map owners for pods with user namespaces. It demands default_permissions, and
   * from then on most requests do not say who asks: only where everybody is let in.
   */
  readonly idmap: boolean;
  /** A container with little memory takes smaller WRITEs, so that many can wait. */
  readonly maxWriteBytes?: number;
  onNegotiated(negotiated: Negotiated): void;
  /** A throw that is not a Failure: the caller gets EIO and we want to know. */
  onBug(error: unknown, opcode: number): void;
}

interface InFlight {
  readonly unique: Buffer;
  readonly respond: Respond;
  readonly interruptible: boolean;
  /** Tells the work that its caller leaves. */
  readonly leaving: AbortController | undefined;
  isInterrupted: boolean;
  /** Releases the slot of the INTERRUPT that came for this request. */
  releaseInterrupt: (() => void) | undefined;
  answered: boolean;
}

/** The FUSE protocol with no device attached: bytes in, bytes out. No input makes it throw. */
export class Protocol {
  readonly #fs: FileSystem;
  readonly #options: ProtocolOptions;
  readonly #interruptGraceMs: number;
  readonly #inFlight = new Map<string, InFlight>();
  #keptInterrupts = 0;

  constructor(fs: FileSystem, options: ProtocolOptions, interruptGraceMs = INTERRUPT_GRACE_MS) {
    this.#fs = fs;
    this.#options = options;
    this.#interruptGraceMs = interruptGraceMs;
  }

  /** Requests received and not answered yet. */
  get pending(): number {
    return this.#inFlight.size;
  }

  /**
   * The bytes must stay as they are until `respond` is called. `again`: an earlier process had
   * the message before and may have served it, without an answer that arrived.
   */
  receive(bytes: Buffer, respond: Respond, again = false): void {
    const request = Request.over(bytes, again);
    if (request === undefined) return respond(undefined);
    switch (request.opcode) {
      case OPCODE.FORGET:
      case OPCODE.BATCH_FORGET:
        return this.#forget(request, respond);
      case OPCODE.NOTIFY_REPLY:
        return respond(undefined);
      case OPCODE.INTERRUPT:
        return this.#interrupt(request, respond);
      case OPCODE.INIT:
        return respond(this.#init(request));
      case OPCODE.DESTROY:
        return respond(reply(request.unique, { chunks: [] }));
      default:
        return this.#serve(request, respond);
    }
  }

  #serve(request: Request, respond: Respond): void {
    const handler = HANDLERS.get(request.opcode);
    if (handler === undefined) return respond(errorReply(request.unique, ERRNO.ENOSYS));
    const key = uniqueKeyOf(request.unique);
    if (this.#inFlight.has(key)) return respond(undefined); // sent again while we work on it
    const outcome = request.again ? this.#fs.outcomeOf(key) : undefined;
    if (outcome !== undefined) return respond(this.#replyOf(request.unique, key, outcome));
    const call: InFlight = {
      unique: request.unique,
      respond,
      interruptible: handler.interruptible ?? false,
      leaving: handler.isToldOfLeaving === true ? new AbortController() : undefined,
      isInterrupted: false,
      releaseInterrupt: undefined,
      answered: false,
    };
    this.#inFlight.set(key, call);
    this.#run(handler, request, key, call);
  }

  #run(handler: Handler, request: Request, key: string, call: InFlight): void {
    const { opcode } = request;
    try {
      const answer = handler.handle(request, this.#fs, call.leaving?.signal ?? NEVER);
      if (!(answer instanceof Promise)) return this.#finish(key, call, answer);
      answer.then(
        (late) => this.#finish(key, call, late),
        (error: unknown) => this.#fail(key, call, error, opcode),
      );
    } catch (error) {
      this.#fail(key, call, error, opcode);
    }
  }

  #finish(key: string, call: InFlight, answer: Answer): void {
    if (call.answered) {
      answer.takeBack?.(); // the caller was interrupted and has left
      answer.release?.();
      this.#fs.answered(key); // the outcome was noted after the answer: nobody will ask for it
      return;
    }
    this.#answer(key, call, reply(call.unique, answer));
  }

  /** Nothing to take back: it may have been delivered the first time. */
  #replyOf(unique: Buffer, key: string, { errno, entry, opened }: Outcome): Reply {
    if (errno !== undefined) {
      return { ...errorReply(unique, errno), settle: () => this.#fs.answered(key) };
    }
    const chunks = [
      ...(entry === undefined ? [] : [encodeEntry(entry)]),
      ...(opened === undefined ? [] : [encodeOpened(opened)]),
    ];
    const release = () => this.#fs.answered(key);
    return reply(unique, { chunks, release });
  }

  #fail(key: string, call: InFlight, error: unknown, opcode: number): void {
    let errno = error instanceof ProtocolError ? error.errno : this.#fs.errnoOf(error);
    if (errno === undefined) {
      this.#options.onBug(error, opcode);
      errno = ERRNO.EIO;
    }
    if (call.answered) this.#fs.answered(key);
    else this.#answer(key, call, errorReply(call.unique, errno));
  }

  #answer(key: string, call: InFlight, message: Reply): void {
    call.answered = true;
    this.#inFlight.delete(key);
    const settle = (delivered: boolean) => {
      message.settle(delivered);
      this.#fs.answered(key);
    };
    call.respond({ chunks: message.chunks, settle });
    call.releaseInterrupt?.();
  }

  /**
   * A killed caller waits for its answer without end: it has to get one. The kernel sends INTERRUPT
   * only once, so it stays in its slot until its request is answered: a successor has to know.
   */
  #interrupt(request: Request, respond: Respond): void {
    if (request.bodyBytes < 8) return respond(undefined);
    const key = uniqueKeyOf(request.body(8).subarray(0, 8));
    const call = this.#inFlight.get(key);
    // It overtook its request on the way through the thread pool: the kernel sends it again.
    if (call === undefined) return respond(errorReply(request.unique, ERRNO.EAGAIN));
    const canBeCutOff = call.interruptible || call.leaving !== undefined;
    if (!canBeCutOff || call.isInterrupted) return respond(undefined);
    call.isInterrupted = true;
    setTimeout(() => this.#cutOff(key, call), this.#interruptGraceMs);
    if (this.#keptInterrupts === KEPT_INTERRUPTS_MAX) return respond(undefined);
    this.#keptInterrupts += 1;
    call.releaseInterrupt = () => {
      this.#keptInterrupts -= 1;
      respond(undefined);
    };
  }

  #cutOff(key: string, call: InFlight): void {
    call.leaving?.abort();
    if (!call.answered && call.interruptible)
      this.#answer(key, call, errorReply(call.unique, ERRNO.EINTR));
  }

  #init(request: Request): Reply {
    try {
      const { bytes, negotiated } = negotiate(request.body(0), this.#options);
      if (negotiated !== undefined) this.#options.onNegotiated(negotiated);
      return reply(request.unique, { chunks: [bytes] });
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      return errorReply(request.unique, error.errno);
    }
  }

  /** Neither has a reply, so neither may fail: what is too short is left unread. */
  #forget(request: Request, respond: Respond): void {
    if (request.bodyBytes < 8) return respond(undefined);
    const key = uniqueKeyOf(request.unique);
    if (request.again && this.#fs.outcomeOf(key) !== undefined) return respond(undefined);
    let anyLeft = false;
    for (const [nodeid, count] of forgottenBy(request)) {
      if (!this.#fs.forget(nodeid, count)) anyLeft = true;
    }
    if (anyLeft) this.#fs.done(key);
    respond(undefined);
    if (anyLeft) this.#fs.answered(key);
  }
}

function forgottenBy(request: Request): [nodeid: number, count: number][] {
  const body = request.body(8);
  if (request.opcode === OPCODE.FORGET) return [[request.nodeid, readUint64(body, 0)]];
  const entries = Math.min(body.readUInt32LE(0), Math.floor((body.length - 8) / 16));
  return Array.from({ length: entries }, (_, index) => {
    const at = 8 + index * 16;
    return [readUint64(body, at), readUint64(body, at + 8)];
  });
}

function reply(unique: Buffer, answer: Answer): Reply {
  const payloadBytes = answer.chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
  return {
    chunks: [encodeOutHeader(unique, 0, payloadBytes), ...answer.chunks],
    settle(delivered) {
      if (!delivered) answer.takeBack?.();
      answer.release?.();
    },
  };
}

function errorReply(unique: Buffer, errno: number): Reply {
  return { chunks: [encodeOutHeader(unique, errno, 0)], settle: () => undefined };
}

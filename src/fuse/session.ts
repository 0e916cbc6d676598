import type { Buffer } from "node:buffer";
import { read, writev, writevSync } from "node:fs";
import type { Protocol, Reply } from "./protocol.ts";
import { encodeResend } from "./notify.ts";
import { OPCODE } from "./opcode.ts";
import { isUnanswerable } from "./slots.ts";
import type { Leftover, Slot, Slots } from "./slots.ts";

/** Each outstanding read(2) occupies one thread of the pool for as long as nothing happens. */
const DEVICE_READERS = 4;

const READ_AGAIN = new Set(["EAGAIN", "EINTR", "ENOENT", "EIO"]);

export interface SessionEvents {
  /** Something is about to be seen by the kernel: what it stands for has to be kept by now. */
  beforeDone(): void;
  /** A reply that the kernel did not take for a reason other than a caller that left. */
  onLostReply(error: unknown): void;
}

/** Serves one FUSE connection: a few reads always outstanding, each reply in one writev(2). */
export class Session {
  /** Settles when the connection is over (unmounted everywhere) or `stop` was called. */
  readonly ended: Promise<"disconnected" | "stopped">;
  readonly #fd: number;
  readonly #slots: Slots;
  readonly #protocol: Protocol;
  readonly #events: SessionEvents;
  readonly #end: (why: "disconnected" | "stopped") => void;
  #reading = 0;
  #over = false;

  constructor(fd: number, slots: Slots, protocol: Protocol, events: SessionEvents) {
    this.#fd = fd;
    this.#slots = slots;
    this.#protocol = protocol;
    this.#events = events;
    const { promise, resolve } = Promise.withResolvers<"disconnected" | "stopped">();
    this.ended = promise;
    this.#end = resolve;
  }

  start(): void {
    while (this.#reading < DEVICE_READERS && this.#readNext());
  }

  /**
   * Goes on where an earlier process ended. Either the kernel hands out again what was not
   * answered, and only what it does not send again is taken from the slots; or all is.
   */
  resume(canResend: boolean): void {
    const { leftovers } = this.#slots;
    const isNew = leftovers.some(({ opcode }) => opcode === OPCODE.INIT);
    const asks = canResend && !isNew && this.#askAgain();
    for (const leftover of leftovers) {
      if (asks && !isUnanswerable(leftover)) this.#slots.release(leftover.slot);
      else this.#replay(leftover);
    }
    this.start();
  }

  /**
   * No message is handled any more. The outstanding reads stay where they are: what they
   * receive stays in its slot for whoever serves the connection next.
   */
  stop(): void {
    this.#over = true;
    this.#end("stopped");
  }

  /**
   * Settles when the kernel has acted on it, whether or not there was anything to do. It may wait
   * there for a request that we have not answered yet: so never on this thread, and one at a time.
   */
  notify(message: Buffer): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (this.#over) resolve();
    else writev(this.#fd, [message], () => resolve());
    return promise;
  }

  get hasOutstandingReads(): boolean {
    return this.#reading > 0;
  }

  #readNext(): boolean {
    if (this.#over) return false;
    const slot = this.#slots.arm();
    if (slot === undefined) return false;
    this.#reading += 1;
    read(this.#fd, slot.bytes, 0, slot.bytes.length, null, (error, count) => {
      this.#reading -= 1;
      if (this.#over) return;
      if (error === null) this.#receive(slot, count);
      else this.#readFailed(slot, error);
    });
    return true;
  }

  #receive(slot: Slot, count: number): void {
    const place = this.#slots.park(slot, count);
    this.start();
    this.#serve(place, count, false);
  }

  #replay({ slot, sizeBytes }: Leftover): void {
    this.#serve(this.#slots.park(slot, sizeBytes), sizeBytes, true);
  }

  #serve(slot: Slot, sizeBytes: number, again: boolean): void {
    const respond = (reply: Reply | undefined) => {
      this.#events.beforeDone();
      if (reply === undefined) this.#release(slot);
      else this.#write(reply, slot);
    };
    this.#protocol.receive(slot.bytes.subarray(0, sizeBytes), respond, again);
  }

  #askAgain(): boolean {
    try {
      writevSync(this.#fd, [encodeResend()]);
      return true;
    } catch {
      return false; // the slots have it all
    }
  }

  /** A withdrawn or interrupted request is a reason to read again; ENODEV and all else, the end. */
  #readFailed(slot: Slot, error: NodeJS.ErrnoException): void {
    this.#slots.release(slot);
    if (READ_AGAIN.has(error.code ?? "")) return this.start();
    this.#over = true;
    this.#end("disconnected");
  }

  /** On this thread, however large it is: a hop to another one costs more than the copy. */
  #write(reply: Reply, slot: Slot): void {
    let failed: unknown;
    try {
      writevSync(this.#fd, reply.chunks);
    } catch (error) {
      failed = error;
    }
    reply.settle(failed === undefined);
    this.#release(slot);
    if (failed !== undefined && !isCallerGone(failed)) this.#events.onLostReply(failed);
  }

  #release(slot: Slot): void {
    this.#slots.release(slot);
    this.start();
  }
}

/** ENOENT: the request was withdrawn; ENODEV: so was the whole connection. */
function isCallerGone(error: unknown): boolean {
  return error instanceof Error && "code" in error && /^(ENOENT|ENODEV)$/.test(String(error.code));
}

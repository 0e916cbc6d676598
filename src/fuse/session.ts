import { writev, writevSync } from "node:fs";
import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { openDevice } from "../sys/device-stream.ts";
import type { Protocol, Reply } from "./protocol.ts";
import { encodeResend } from "./notify.ts";
import { OPCODE } from "./opcode.ts";
import { isUnanswerable } from "./slots.ts";
import type { Leftover, Slot, Slots } from "./slots.ts";

/** A request was withdrawn while it was read. */
const READ_AGAIN = new Set(["ENOENT", "EIO"]);

export interface SessionEvents {
  /** Something is about to be seen by the kernel: what it stands for has to be kept by now. */
  beforeDone(): void;
  /** A reply that the kernel did not take for a reason other than a caller that left. */
  onLostReply(error: unknown): void;
}

/**
 * Serves one FUSE connection: requests are read when there are any, each reply is one writev(2).
 * INVARIANT: while the stream runs, it has a slot for the next request, and one is spare for the
 * one after it: the stream asks for that before it can be stopped.
 */
export class Session {
  /** Settles when the connection is over (unmounted everywhere) or `stop` was called. */
  readonly ended: Promise<"disconnected" | "stopped">;
  readonly #fd: number;
  readonly #slots: Slots;
  readonly #protocol: Protocol;
  readonly #events: SessionEvents;
  readonly #end: (why: "disconnected" | "stopped") => void;
  #stream: Socket | undefined;
  #armed: Slot | undefined;
  #spare: Slot | undefined;
  #paused = false;
  #notifying = 0;
  #received = 0;
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

  /** Goes on reading, if it does not and there is room. */
  start(): void {
    this.#armed ??= this.#slots.arm();
    this.#spare ??= this.#slots.arm();
    if (this.#over || this.#armed === undefined || this.#spare === undefined) return;
    this.#stream ??= this.#open(this.#armed);
    if (this.#paused) this.#stream.resume();
    this.#paused = false;
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
   * No message is read or handled any more. What was not answered stays in its slot for whoever
   * serves the connection next.
   */
  stop(): void {
    this.#finish("stopped");
  }

  /**
   * Reads what the kernel has queued, until a whole turn of the event loop brings nothing more:
   * the RELEASE of a file that was closed before may be among it.
   */
  async drain(limitMs: number): Promise<void> {
    const untilMs = performance.now() + limitMs;
    for (let known = -1; known !== this.#received;) {
      if (this.#over || this.#paused || performance.now() > untilMs) return;
      known = this.#received;
      await nextTurn(); // the rest of this turn
      await nextTurn(); // a whole one, in which the device is polled
    }
  }

  /**
   * Settles when the kernel has acted on it, whether or not there was anything to do. It may wait
   * there for a request that we have not answered yet: so never on this thread, and one at a time.
   */
  notify(...message: readonly Uint8Array[]): Promise<void> {
    if (this.#over) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#notifying += 1;
    writev(this.#fd, message, () => {
      this.#notifying -= 1;
      resolve();
    });
    return promise;
  }

  /** A thread may be inside the kernel, and wait there for an answer that nobody gives any more. */
  get isNotifying(): boolean {
    return this.#notifying > 0;
  }

  #open(first: Slot): Socket {
    const stream = openDevice(this.#fd, {
      buffer: () => (this.#armed ?? first).into,
      callback: (count) => this.#receive(count),
    });
    stream.on("error", (error: NodeJS.ErrnoException) => this.#readFailed(error));
    return stream;
  }

  /** False: no further one until a slot is free. */
  #receive(count: number): boolean {
    const slot = this.#armed;
    if (this.#over || slot === undefined) return false;
    this.#received += 1;
    this.#armed = this.#spare;
    this.#spare = undefined;
    this.#serve(this.#slots.park(slot, count), count, false);
    this.#spare ??= this.#slots.arm();
    this.#paused = this.#spare === undefined;
    return !this.#paused;
  }

  #replay({ slot, sizeBytes }: Leftover): void {
    this.#serve(this.#slots.park(slot, sizeBytes), sizeBytes, true);
  }

  #serve(slot: Slot, sizeBytes: number, again: boolean): void {
    let responded = false;
    const respond = (reply: Reply | undefined) => {
      responded = true;
      this.#events.beforeDone();
      if (reply === undefined) this.#release(slot);
      else this.#write(reply, slot);
    };
    this.#protocol.receive(slot.bytes.subarray(0, sizeBytes), respond, again);
    if (!responded) this.#slots.hold(slot, sizeBytes);
  }

  #askAgain(): boolean {
    try {
      writevSync(this.#fd, [encodeResend()]);
      return true;
    } catch {
      return false; // the slots have it all
    }
  }

  /** ENODEV and all that is not about a single request: the end. */
  #readFailed(error: NodeJS.ErrnoException): void {
    if (this.#over) return;
    if (!READ_AGAIN.has(error.code ?? "")) return this.#finish("disconnected");
    if (this.#armed !== undefined) this.#slots.release(this.#armed);
    this.#armed = undefined;
    this.#stream = undefined;
    this.start();
  }

  #finish(why: "disconnected" | "stopped"): void {
    this.#over = true;
    this.#stream?.destroy();
    this.#end(why);
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

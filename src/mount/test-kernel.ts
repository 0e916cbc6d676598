import { Buffer } from "node:buffer";
import { writeUint64 } from "../fuse/encode.ts";
import { OPCODE } from "../fuse/opcode.ts";
import type { Protocol } from "../fuse/protocol.ts";
import { IN_HEADER_BYTES, readUint64 } from "../fuse/request.ts";
import type { Life } from "./test-life.ts";

/** Larger than any pid that Linux gives: nothing that the machine runs is meant by accident. */
const PID = 5_000_042;
const RESENT = 0x8000_0000;
const DIRENT_BYTES = 24;

/** A reply that is an error. */
export class ErrnoError extends Error {
  readonly errno: number;

  constructor(errno: number) {
    super(`errno ${errno}`);
    this.errno = errno;
  }
}

interface Sent {
  readonly bytes: Buffer;
  readonly answered: PromiseWithResolvers<Buffer>;
}

/** For tests: the other side of the connection, which remembers what it has not got yet. */
export class TestKernel {
  /** What the kernel knows of each nodeid: references that it has not given back. */
  readonly references = new Map<number, number>();
  /** Contents that it was given, and would not ask for. */
  readonly pages = new Map<number, string>();
  readonly #resends: boolean;
  /** Received by an engine and not released: they outlive it. */
  readonly #slots = new Map<number, Sent>();
  /** Without an answer. */
  readonly #waiting = new Map<number, Sent>();
  /** Not yet read by any engine. */
  readonly #queue = new Map<number, Sent>();
  #serve: (unique: number, sent: Sent, again: boolean) => void = () => {};
  #unique = 0;

  /** `resends`: as kernels with FUSE_NOTIFY_RESEND do; else all comes from the slots. */
  constructor(resends: boolean) {
    this.#resends = resends;
  }

  get uniquesInSlots(): string[] {
    return [...this.#slots.keys()].map((unique) => `0.${unique.toString(16)}`);
  }

  /** From now on this one serves; first what the last one may not have ended. */
  connect(protocol: Protocol, life: Life, commit: () => void): void {
    this.#serve = (unique, sent, again) =>
      this.#deliver(protocol, life, commit, unique, sent, again);
    const left = [...this.#slots].toSorted(([one], [other]) => one - other);
    for (const [unique, sent] of left) {
      const isForget = sent.bytes.readUInt32LE(4) === OPCODE.FORGET;
      if (this.#resends && !isForget && !this.#waiting.has(unique)) this.#slots.delete(unique);
      else this.#serve(unique, sent, true);
    }
    const queued = [...this.#queue];
    this.#queue.clear();
    for (const [unique, sent] of queued) this.#serve(unique, sent, false);
  }

  request(
    opcode: number,
    nodeid: number,
    struct: Buffer,
    tail: string | Buffer = "",
    pid = PID,
  ): Promise<Buffer> {
    const sent = {
      bytes: encode(opcode, nodeid, struct, tail, pid),
      answered: Promise.withResolvers<Buffer>(),
    };
    const unique = this.#send(sent);
    this.#waiting.set(unique, sent);
    this.#serve(unique, sent, false);
    return sent.answered.promise;
  }

  /** A signal comes to all that wait for an answer. */
  interrupt(): void {
    for (const unique of this.#waiting.keys()) {
      const struct = Buffer.alloc(8);
      writeUint64(struct, unique, 0);
      const bytes = encode(OPCODE.INTERRUPT, 0, struct, "", 0);
      const sent = { bytes, answered: Promise.withResolvers<Buffer>() };
      this.#serve(this.#send(sent), sent, false);
    }
  }

  /** An answer with an entry: the kernel has one more reference. */
  entered(answer: Buffer): number {
    const nodeid = readUint64(answer, 0);
    this.references.set(nodeid, (this.references.get(nodeid) ?? 0) + 1);
    return nodeid;
  }

  forget(nodeid: number, count: number): void {
    const struct = Buffer.alloc(8);
    writeUint64(struct, count, 0);
    const sent = {
      bytes: encode(OPCODE.FORGET, nodeid, struct, "", 0),
      answered: Promise.withResolvers<Buffer>(),
    };
    const left = (this.references.get(nodeid) ?? 0) - count;
    if (left === 0) {
      this.references.delete(nodeid);
      this.pages.delete(nodeid);
    } else this.references.set(nodeid, left);
    this.#serve(this.#send(sent), sent, false);
  }

  #send(sent: Sent): number {
    const unique = ++this.#unique * 2;
    writeUint64(sent.bytes, unique, 8);
    return unique;
  }

  #deliver(
    protocol: Protocol,
    life: Life,
    commit: () => void,
    unique: number,
    sent: Sent,
    again: boolean,
  ): void {
    if (life.ended) {
      if (!again) this.#queue.set(unique, sent);
      return;
    }
    this.#slots.set(unique, sent);
    if (!life.goesOn()) return;
    const bytes = Buffer.from(sent.bytes);
    if (again && this.#resends) bytes.writeUInt32LE(RESENT, 12);
    protocol.receive(
      bytes,
      (reply) => {
        if (life.ended) return;
        commit();
        if (!life.goesOn()) return;
        if (reply !== undefined) {
          const waiting = this.#waiting.get(unique);
          this.#waiting.delete(unique);
          if (waiting !== undefined) settle(Buffer.concat(reply.chunks), waiting.answered);
          if (!life.goesOn()) return;
          reply.settle(waiting !== undefined);
        }
        if (life.goesOn()) this.#slots.delete(unique);
      },
      again && !this.#resends,
    );
  }
}

function encode(
  opcode: number,
  nodeid: number,
  struct: Buffer,
  tail: string | Buffer,
  pid: number,
): Buffer {
  const behind =
    typeof tail === "string" && tail !== "" ? Buffer.from(`${tail}\0`) : Buffer.from(tail);
  const bytes = Buffer.concat([Buffer.alloc(IN_HEADER_BYTES), struct, behind]);
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeUInt32LE(opcode, 4);
  writeUint64(bytes, nodeid, 16);
  bytes.writeUInt32LE(pid, 32);
  return bytes;
}

function settle(reply: Buffer, answered: PromiseWithResolvers<Buffer>): void {
  const error = reply.readInt32LE(4);
  if (error === 0) answered.resolve(reply.subarray(16));
  else answered.reject(new ErrnoError(-error));
}

export interface Dirent {
  readonly name: string;
  readonly next: number;
}

/** `entryBytes`: what READDIRPLUS puts before each dirent. */
export function readDirents(page: Buffer, entryBytes = 0): Dirent[] {
  const dirents: Dirent[] = [];
  for (let at = entryBytes; at < page.length;) {
    const nameBytes = page.readUInt32LE(at + 16);
    const start = at + DIRENT_BYTES;
    const name = page.toString("utf8", start, start + nameBytes);
    dirents.push({ name, next: readUint64(page, at + 8) });
    at += Math.ceil((DIRENT_BYTES + nameBytes) / 8) * 8 + entryBytes;
  }
  return dirents;
}

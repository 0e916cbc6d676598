import type { Buffer } from "node:buffer";
import { ERRNO, ProtocolError } from "./errno.ts";
import type { Caller } from "./file-system.ts";

/** sizeof(struct fuse_in_header) */
export const IN_HEADER_BYTES = 40;

/** Of the upper word of `unique`. */
const RESENT = 0x8000_0000;
const NAME_DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Numbers above 2^53 lose bits: we hand out none, so such a one can only be unknown to us. */
export function readUint64(bytes: Buffer, offset: number): number {
  return bytes.readUInt32LE(offset) + bytes.readUInt32LE(offset + 4) * 0x1_0000_0000;
}

/** The same request, first sent or sent again: bit 63 only says which of the two it is. */
export function uniqueKeyOf(unique: Buffer): string {
  const high = unique.readUInt32LE(4) & ~RESENT;
  return `${high.toString(16)}.${unique.readUInt32LE(0).toString(16)}`;
}

/** An opaque 64-bit number, such as a lock owner, as text. */
export function hexOf(bytes: Buffer): string {
  return `${bytes.readUInt32LE(4).toString(16)}.${bytes.readUInt32LE(0).toString(16)}`;
}

/** A view on the buffer that the kernel wrote into. Nothing is copied; valid until the reply. */
export class Request {
  /** Handed out before: what it asks for may be done already. */
  readonly again: boolean;
  readonly #bytes: Buffer;

  private constructor(bytes: Buffer, again: boolean) {
    this.#bytes = bytes;
    this.again = again || (bytes.readUInt32LE(12) & RESENT) !== 0;
  }

  /** Undefined when the bytes are not one whole message: there is nobody to answer then. */
  static over(bytes: Buffer, again = false): Request | undefined {
    if (bytes.length < IN_HEADER_BYTES) return undefined;
    if (bytes.readUInt32LE(0) !== bytes.length) return undefined;
    return new Request(bytes, again);
  }

  get opcode(): number {
    return this.#bytes.readUInt32LE(4);
  }

  /** Eight raw bytes, echoed as they came. */
  get unique(): Buffer {
    return this.#bytes.subarray(8, 16);
  }

  get nodeid(): number {
    return readUint64(this.#bytes, 16);
  }

  /** The calling thread, as the process that opened the FUSE device sees it. */
  get pid(): number {
    return this.#bytes.readUInt32LE(32);
  }

  /** A copy, since it may be looked at after the slot went to another request. */
  get caller(): Caller {
    return {
      uid: this.#bytes.readUInt32LE(24),
      gid: this.#bytes.readUInt32LE(28),
      pid: this.pid,
      unique: uniqueKeyOf(this.unique),
    };
  }

  get bodyBytes(): number {
    return this.#bytes.length - IN_HEADER_BYTES;
  }

  /** The opcode's own struct: at least `structBytes`, since newer kernels may append to it. */
  body(structBytes: number): Buffer {
    const body = this.#bytes.subarray(IN_HEADER_BYTES);
    if (body.length < structBytes) {
      throw new ProtocolError(ERRNO.EINVAL, `opcode ${this.opcode}: short message`);
    }
    return body;
  }

  /** The n-th NUL-terminated name behind the struct. */
  name(structBytes: number, index = 0): string {
    let rest = this.body(structBytes).subarray(structBytes);
    for (let skipped = 0; skipped < index; skipped++) rest = rest.subarray(endOfName(rest) + 1);
    try {
      return NAME_DECODER.decode(rest.subarray(0, endOfName(rest)));
    } catch (error) {
      if (error instanceof ProtocolError) throw error;
      throw new ProtocolError(ERRNO.EILSEQ, "a name that is not UTF-8 can't be a key");
    }
  }
}

function endOfName(bytes: Buffer): number {
  const end = bytes.indexOf(0);
  if (end === -1) throw new ProtocolError(ERRNO.EINVAL, "a name without its end");
  return end;
}

import { Buffer } from "node:buffer";
import { ERRNO, ProtocolError } from "./errno.ts";

export const WRITE_BYTES_MAX = 1 << 20;
const PAGES_MAX = WRITE_BYTES_MAX / 4096;
const OUR_MAJOR = 7;
const OUR_MINOR = 38;
const OLDEST_MINOR = 31; // Linux 5.4: what we rely on is there since then
const INIT_IN_BYTES = 16;
const INIT_IN_EXT_BYTES = 20;
const INIT_OUT_BYTES = 64;
const BACKGROUND_MAX = 64;

/**
 * Without FUSE_ASYNC_DIO: with it an asynchronous write (libaio, io_uring) is a background request.
 * Writers that wait for memory would take all BACKGROUND_MAX places, which reads ahead need, too,
 * and none of them could be killed.
 */
const FLAG = {
  ASYNC_READ: 1 << 0,
  ATOMIC_O_TRUNC: 1 << 3, // else O_TRUNC comes as a separate SETATTR before OPEN
  BIG_WRITES: 1 << 5,
  // Always, not READDIRPLUS_AUTO: a listing has all attributes, a later LOOKUP costs two requests.
  DO_READDIRPLUS: 1 << 13,
  PARALLEL_DIROPS: 1 << 18,
  MAX_PAGES: 1 << 22,
  INIT_EXT: 1 << 30,
} as const;
const WANTED = Object.values(FLAG).reduce((all, flag) => all | flag, 0);
const FLAG2_HAS_RESEND = 1 << 7; // FUSE_HAS_RESEND, bit 39 of both words
const FLAG2_ALLOW_IDMAP = 1 << 8;

/** What the two sides agreed on; a successor of this process must go on with the same. */
export interface Negotiated {
  readonly minor: number;
  readonly flags: number;
  readonly flags2: number;
}

/** Whether the kernel hands out unanswered requests again when asked. */
export function canResend({ flags2 }: Pick<Negotiated, "flags2">): boolean {
  return (flags2 & FLAG2_HAS_RESEND) !== 0;
}

export interface InitAnswer {
  readonly bytes: Buffer;
  /** Undefined: the kernel is newer than the protocol and will ask again with our version. */
  readonly negotiated: Negotiated | undefined;
}

export interface NegotiateOptions {
  readonly idmap: boolean;
  /** The largest WRITE; the default if absent. */
  readonly maxWriteBytes?: number | undefined;
}

/** Answers FUSE_INIT: the features that pay, as far as this kernel offers them. */
export function negotiate(
  body: Buffer,
  { idmap, maxWriteBytes = WRITE_BYTES_MAX }: NegotiateOptions,
): InitAnswer {
  if (body.length < INIT_IN_BYTES) throw new ProtocolError(ERRNO.EINVAL, "INIT: short message");
  const major = body.readUInt32LE(0);
  const minor = body.readUInt32LE(4);
  if (major > OUR_MAJOR) return { bytes: encodeVersion(), negotiated: undefined };
  if (major < OUR_MAJOR || minor < OLDEST_MINOR) {
    throw new ProtocolError(ERRNO.EPROTO, `FUSE protocol ${major}.${minor} is too old`);
  }
  const flags = (body.readUInt32LE(12) & WANTED) >>> 0;
  const extended = (flags & FLAG.INIT_EXT) !== 0 && body.length >= INIT_IN_EXT_BYTES;
  const wanted2 = FLAG2_HAS_RESEND | (idmap ? FLAG2_ALLOW_IDMAP : 0);
  const flags2 = extended ? (body.readUInt32LE(16) & wanted2) >>> 0 : 0;
  const agreed = { minor: Math.min(minor, OUR_MINOR), flags, flags2 };
  return {
    bytes: encodeInit(agreed, maxWriteBytes),
    negotiated: agreed,
  };
}

function encodeInit(agreed: Negotiated, maxWriteBytes: number): Buffer {
  const bytes = encodeVersion();
  bytes.writeUInt32LE(agreed.minor, 4);
  // Not what the kernel proposed: it takes the smaller of this and what was set for the device,
  // and its proposal is older than that.
  bytes.writeUInt32LE(WRITE_BYTES_MAX, 8);
  bytes.writeUInt32LE(agreed.flags, 12);
  bytes.writeUInt16LE(BACKGROUND_MAX, 16);
  bytes.writeUInt16LE((BACKGROUND_MAX * 3) / 4, 18); // congestion_threshold
  bytes.writeUInt32LE(maxWriteBytes, 20);
  bytes.writeUInt32LE(1, 24); // time_gran: nanoseconds
  bytes.writeUInt16LE(PAGES_MAX, 28);
  bytes.writeUInt32LE(agreed.flags2, 32);
  return bytes;
}

function encodeVersion(): Buffer {
  const bytes = Buffer.alloc(INIT_OUT_BYTES);
  bytes.writeUInt32LE(OUR_MAJOR, 0);
  bytes.writeUInt32LE(OUR_MINOR, 4);
  return bytes;
}

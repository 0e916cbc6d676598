import { OPCODE } from "./opcode.ts";
import { ERRNO, ProtocolError } from "./errno.ts";
import { DOTS, encodeDirectoryPage } from "./directory-page.ts";
import type { DirectoryPage } from "./directory-page.ts";
import {
  encodeAbsentEntry,
  encodeAttributes,
  encodeEntry,
  encodeOpened,
  encodeStatfs,
  encodeWritten,
} from "./encode.ts";
import type {
  AttributeChanges,
  DirectoryListing,
  Entry,
  FileSystem,
  Maybe,
} from "./file-system.ts";
import { WRITE_BYTES_MAX } from "./negotiate.ts";
import { hexOf, readUint64, uniqueKeyOf } from "./request.ts";
import type { Request } from "./request.ts";

/** What goes behind the header, and what to do when it is, or is not, in the kernel's hands. */
export interface Answer {
  readonly chunks: readonly Uint8Array[];
  /** Lent memory goes back, delivered or not. */
  readonly release?: () => void;
  /** The kernel never saw it: references counted for it have to be given back. */
  readonly takeBack?: () => void;
}

export interface Handler {
  /** May be answered with EINTR while the work goes on: its result is taken back. */
  readonly interruptible?: boolean;
  /** Its work is told when the caller leaves: what was not begun by then must not be begun. */
  readonly isToldOfLeaving?: boolean;
  handle(request: Request, fs: FileSystem, leaving: AbortSignal): Maybe<Answer>;
}

const EMPTY: Answer = { chunks: [] };
const S_IFMT = 0o170000;
const S_IFREG = 0o100000;
const FATTR = { MODE: 1, UID: 2, GID: 4, SIZE: 8, TIMES: 0x10 | 0x20 | 0x80 | 0x100, FH: 0x40 };
/** FUSE_WRITE_LOCKOWNER: fuse_write_in.lock_owner is set. */
const WRITE_LOCKOWNER = 1 << 1;
const NEEDS_NO_FLUSH = { keepCache: false, directIo: false, needsFlush: false };

/** One line per operation that we serve; all others are answered with ENOSYS. */
export const HANDLERS: ReadonlyMap<number, Handler> = new Map<number, Handler>([
  [OPCODE.LOOKUP, { interruptible: true, handle: lookup }],
  [OPCODE.GETATTR, { handle: getattr }],
  [OPCODE.SETATTR, { handle: setattr }],
  [OPCODE.MKNOD, { interruptible: true, handle: mknod }],
  [OPCODE.MKDIR, { interruptible: true, handle: mkdir }],
  [OPCODE.UNLINK, { interruptible: true, isToldOfLeaving: true, handle: unlink }],
  [OPCODE.RMDIR, { interruptible: true, isToldOfLeaving: true, handle: rmdir }],
  [OPCODE.RENAME, { interruptible: true, handle: (r, fs) => rename(r, fs, 8) }],
  [OPCODE.RENAME2, { interruptible: true, handle: rename2 }],
  [OPCODE.SYMLINK, { handle: refuse }],
  [OPCODE.LINK, { handle: refuse }],
  [OPCODE.OPEN, { interruptible: true, isToldOfLeaving: true, handle: open }],
  [OPCODE.CREATE, { interruptible: true, handle: create }],
  [OPCODE.READ, { interruptible: true, handle: read }],
  // Not interruptible: the request's memory is lent to the work, which ends by itself.
  [OPCODE.WRITE, { isToldOfLeaving: true, handle: write }],
  [OPCODE.FLUSH, { interruptible: true, handle: flush }],
  [OPCODE.FSYNC, { interruptible: true, handle: fsync }],
  [OPCODE.RELEASE, { handle: release }],
  [OPCODE.OPENDIR, { handle: opendir }],
  [OPCODE.READDIR, { interruptible: true, handle: (r, fs) => readdir(r, fs, false) }],
  [OPCODE.READDIRPLUS, { interruptible: true, handle: (r, fs) => readdir(r, fs, true) }],
  [OPCODE.RELEASEDIR, { handle: releasedir }],
  [OPCODE.STATFS, { handle: () => ({ chunks: [encodeStatfs()] }) }],
]);

/** Without a detour through the task queue when the answer is there already. */
function then<T>(value: Maybe<T>, answerOf: (value: T) => Maybe<Answer>): Maybe<Answer> {
  return value instanceof Promise ? value.then(answerOf) : answerOf(value);
}

function empty(done: Maybe<void>): Maybe<Answer> {
  return then(done, () => EMPTY);
}

function entered(fs: FileSystem, entry: Entry, ...more: Uint8Array[]): Answer {
  return {
    chunks: [encodeEntry(entry), ...more],
    takeBack: () => fs.forget(entry.attributes.nodeid, 1),
  };
}

function lookup(request: Request, fs: FileSystem): Maybe<Answer> {
  return then(fs.lookup(request.caller, request.nodeid, request.name(0)), (found) =>
    found.attributes === undefined
      ? { chunks: [encodeAbsentEntry(found.validMs)] }
      : entered(fs, found),
  );
}

function getattr(request: Request, fs: FileSystem): Maybe<Answer> {
  return then(fs.getAttributes(request.caller, request.nodeid), (entry) => ({
    chunks: [encodeAttributes(entry)],
  }));
}

function setattr(request: Request, fs: FileSystem): Maybe<Answer> {
  const body = request.body(88);
  const valid = body.readUInt32LE(0);
  const changes: AttributeChanges = {
    mode: (valid & FATTR.MODE) === 0 ? undefined : body.readUInt32LE(68) & 0o7777,
    uid: (valid & FATTR.UID) === 0 ? undefined : body.readUInt32LE(76),
    gid: (valid & FATTR.GID) === 0 ? undefined : body.readUInt32LE(80),
    sizeBytes: (valid & FATTR.SIZE) === 0 ? undefined : readUint64(body, 16),
    changesTimes: (valid & FATTR.TIMES) !== 0,
    handle: (valid & FATTR.FH) === 0 ? undefined : readUint64(body, 8),
  };
  return then(fs.setAttributes(request.caller, request.nodeid, changes), (entry) => ({
    chunks: [encodeAttributes(entry)],
  }));
}

function mknod(request: Request, fs: FileSystem): Maybe<Answer> {
  const mode = request.body(16).readUInt32LE(0);
  if ((mode & S_IFMT) !== S_IFREG) {
    throw new ProtocolError(ERRNO.EINVAL, "only regular files can be made");
  }
  const made = fs.makeFile(request.caller, request.nodeid, request.name(16), mode);
  return then(made, (entry) => madeAnswer(fs, entry));
}

function mkdir(request: Request, fs: FileSystem): Maybe<Answer> {
  const made = fs.makeDirectory(request.caller, request.nodeid, request.name(8));
  return then(made, (entry) => madeAnswer(fs, entry));
}

/** A caller that was told EINTR must not find the name when it tries again. */
function madeAnswer(fs: FileSystem, entry: Entry): Answer {
  return { ...entered(fs, entry), takeBack: () => fs.unmake(entry.attributes.nodeid) };
}

/** After EINTR the object may still be deleted, if S3 was asked for that before. */
function unlink(request: Request, fs: FileSystem, leaving: AbortSignal): Maybe<Answer> {
  return empty(fs.unlink(request.caller, request.nodeid, request.name(0), leaving));
}

function rmdir(request: Request, fs: FileSystem, leaving: AbortSignal): Maybe<Answer> {
  return empty(fs.removeDirectory(request.caller, request.nodeid, request.name(0), leaving));
}

function rename(request: Request, fs: FileSystem, structBytes: number): Maybe<Answer> {
  const newParent = readUint64(request.body(structBytes), 0);
  const name = request.name(structBytes);
  return empty(fs.rename(request.nodeid, name, newParent, request.name(structBytes, 1)));
}

function rename2(request: Request, fs: FileSystem): Maybe<Answer> {
  const flags = request.body(16).readUInt32LE(8);
  const RENAME_NOREPLACE = 1; // the kernel has looked already; EXCHANGE and WHITEOUT we have not
  if ((flags & ~RENAME_NOREPLACE) !== 0) throw new ProtocolError(ERRNO.EINVAL, "rename flags");
  return rename(request, fs, 16);
}

function refuse(): never {
  throw new ProtocolError(ERRNO.EPERM, "S3 has no links");
}

function open(request: Request, fs: FileSystem, leaving: AbortSignal): Maybe<Answer> {
  const flags = request.body(8).readUInt32LE(0);
  return then(fs.open(request.caller, request.nodeid, flags, leaving), (opened) => ({
    chunks: [encodeOpened(opened)],
    takeBack: () => fs.abandon(opened.handle),
  }));
}

function create(request: Request, fs: FileSystem): Maybe<Answer> {
  const flags = request.body(16).readUInt32LE(0);
  const made = fs.create(request.caller, request.nodeid, request.name(16), flags);
  return then(made, ({ entry, opened }) => {
    const answer = entered(fs, entry, encodeOpened(opened));
    const takeBack = () => {
      fs.abandon(opened.handle);
      answer.takeBack?.();
    };
    return { ...answer, takeBack };
  });
}

function read(request: Request, fs: FileSystem): Maybe<Answer> {
  const body = request.body(40);
  const sizeBytes = Math.min(body.readUInt32LE(16), WRITE_BYTES_MAX);
  const lent = fs.read(readUint64(body, 0), readUint64(body, 8), sizeBytes);
  return then(lent, (bytes) => ({ chunks: bytes.chunks, release: () => bytes.release() }));
}

function write(request: Request, fs: FileSystem, leaving: AbortSignal): Maybe<Answer> {
  const body = request.body(40);
  const sizeBytes = body.readUInt32LE(16);
  if (body.length !== 40 + sizeBytes) throw new ProtocolError(ERRNO.EINVAL, "WRITE: wrong size");
  const namesOwner = (body.readUInt32LE(20) & WRITE_LOCKOWNER) !== 0;
  const user = { pid: request.pid, owner: hexOf(body.subarray(24, 32)) };
  const written = fs.write({
    handle: readUint64(body, 0),
    offsetBytes: readUint64(body, 8),
    data: body.subarray(40),
    unique: uniqueKeyOf(request.unique),
    again: request.again,
    leaving,
    ...(namesOwner ? { user } : {}),
  });
  return then(written, (count) => ({ chunks: [encodeWritten(count)] }));
}

function flush(request: Request, fs: FileSystem): Maybe<Answer> {
  const body = request.body(24);
  const user = { pid: request.pid, owner: hexOf(body.subarray(16, 24)) };
  return empty(fs.flush(user, readUint64(body, 0)));
}

function fsync(request: Request, fs: FileSystem): Maybe<Answer> {
  return empty(fs.sync(readUint64(request.body(16), 0)));
}

function release(request: Request, fs: FileSystem): Answer {
  fs.release(readUint64(request.body(24), 0));
  return EMPTY;
}

function opendir(request: Request, fs: FileSystem): Maybe<Answer> {
  return then(fs.openDirectory(request.caller, request.nodeid), (handle) => ({
    chunks: [encodeOpened({ handle, ...NEEDS_NO_FLUSH })],
    takeBack: () => fs.releaseDirectory(handle),
  }));
}

function readdir(request: Request, fs: FileSystem, plus: boolean): Maybe<Answer> {
  const body = request.body(40);
  const position = readUint64(body, 8);
  const sizeBytes = Math.min(body.readUInt32LE(16), WRITE_BYTES_MAX);
  const index = Math.max(0, position - DOTS.length);
  const answerOf = (page: DirectoryPage): Answer => {
    const takeBack = () => {
      for (const nodeid of page.entered) fs.forget(nodeid, 1);
    };
    return { chunks: [page.bytes], takeBack, release: page.release };
  };
  return then(fs.listDirectory(readUint64(body, 0), index, position === 0), (listing) => {
    const page = encodeDirectoryPage(listing, position, sizeBytes, plus);
    const isEmpty = page.bytes.length === 0 && page.next > position;
    if (!isEmpty) return answerOf(page);
    return pageBehind(page, listing, sizeBytes, plus).then(answerOf);
  });
}

/** A page without entries ends the directory: one whose names are all gone is not sent. */
async function pageBehind(
  withoutEntries: DirectoryPage,
  listing: DirectoryListing,
  sizeBytes: number,
  plus: boolean,
): Promise<DirectoryPage> {
  let page = withoutEntries;
  for (let position = 0; page.bytes.length === 0 && page.next > position;) {
    position = page.next;
    page.release();
    await listing.load(position - DOTS.length);
    page = encodeDirectoryPage(listing, position, sizeBytes, plus);
  }
  return page;
}

function releasedir(request: Request, fs: FileSystem): Answer {
  fs.releaseDirectory(readUint64(request.body(24), 0));
  return EMPTY;
}

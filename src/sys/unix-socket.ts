import { Buffer } from "node:buffer";
import { close, closeSync, renameSync, rmSync } from "node:fs";
import koffi from "koffi";
import { SystemError, bind, checked } from "./libc.ts";
import { POLLIN, poll } from "./poll.ts";

const AF_UNIX = 1;
const SOCK_STREAM = 1;
const SOCK_FLAGS = 0o4000 | 0o2000000; // SOCK_NONBLOCK | SOCK_CLOEXEC
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
const SO_LINGER = 13;
const NO_LINGER = Buffer.alloc(8);
const SO_PEERCRED = 17;
const SO_PASSRIGHTS = 83; // since Linux 6.16
const SHUT_RDWR = 2;
const MSG_NOSIGNAL = 0x4000;
const MSG_CMSG_CLOEXEC = 0x40000000;
const MSG_CTRUNC = 0x8;
const PATH_BYTES_MAX = 107;
const CMSG_HEADER_BYTES = 16;
const FD_BYTES = 4;
/** What one message may carry. */
export const DESCRIPTORS_MAX = 16;
/** What the kernel lets one carry: room for fewer, and it closes the rest itself. */
const SCM_MAX_FD = 253;
const BACKLOG = 8;
const DROPPED_BYTES = 64 * 1024;

koffi.struct("iovec", { iov_base: "void *", iov_len: "size_t" });
koffi.struct("msghdr", {
  msg_name: "void *",
  msg_namelen: "uint32_t",
  msg_iov: "iovec *",
  msg_iovlen: "size_t",
  msg_control: "void *",
  msg_controllen: "size_t",
  msg_flags: "int",
});

const cSocket = bind("int socket(int domain, int type, int protocol)");
const cSocketPair = bind("int socketpair(int domain, int type, int protocol, _Out_ int *pair)");
const cConnect = bind("int connect(int fd, const void *address, uint32_t size)");
const cBind = bind("int bind(int fd, const void *address, uint32_t size)");
const cListen = bind("int listen(int fd, int backlog)");
const cAccept = bind("int accept4(int fd, void *address, void *size, int flags)");
const cGetOption = bind(
  "int getsockopt(int fd, int level, int name, void *value, _Inout_ uint32_t *size)",
);
const cSetOption = bind(
  "int setsockopt(int fd, int level, int name, const void *value, uint32_t size)",
);
const cShutdown = bind("int shutdown(int fd, int how)");
const cSend = bind("long sendmsg(int fd, const msghdr *message, int flags)");
const cReceive = bind("long recvmsg(int fd, _Inout_ msghdr *message, int flags)");

export interface PeerCredentials {
  readonly pid: number;
  readonly uid: number;
}

export interface Received {
  /** Empty: the other side has closed. */
  readonly bytes: Buffer;
  /** Ours from now on: whoever receives them closes them. */
  readonly fds: readonly number[];
}

/** A connected socket that never blocks. */
export function connectUnix(path: string): number {
  return withSocket((fd) => {
    const address = addressOf(path);
    checked("connect", cConnect(fd, address, address.length), path);
  });
}

/** Two ends of one connection that never block: one to keep, one to give away. */
export function socketPair(): { readonly mine: number; readonly theirs: number } {
  const pair = [0, 0];
  checked("socketpair", cSocketPair(AF_UNIX, SOCK_STREAM | SOCK_FLAGS, 0, pair));
  const [mine = -1, theirs = -1] = pair;
  return { mine, theirs };
}

/** A listening socket. It appears at its path by rename: who sees it there can connect. */
export function listenUnix(path: string): number {
  return withSocket((fd) => {
    const draft = `${path}.new`;
    rmSync(draft, { force: true });
    const address = addressOf(draft);
    checked("bind", cBind(fd, address, address.length), draft);
    checked("listen", cListen(fd, BACKLOG), draft);
    renameSync(draft, path);
  });
}

/** The next waiting connection. Call it when the listening socket is readable. */
export function acceptUnix(listener: number): number {
  return checked("accept4", cAccept(listener, null, null, SOCK_FLAGS));
}

/** Who is at the other end: for a connection, who called listen() or connect(). */
export function peerCredentialsOf(fd: number): PeerCredentials {
  const value = Buffer.alloc(12);
  const size = [value.length];
  checked("getsockopt SO_PEERCRED", cGetOption(fd, SOL_SOCKET, SO_PEERCRED, value, size));
  return { pid: value.readInt32LE(0), uid: value.readUInt32LE(4) };
}

/** One message with descriptors, whole or not at all: it must fit into the socket's buffer. */
export function sendWithFds(fd: number, bytes: Buffer, fds: readonly number[]): void {
  const control = fds.length === 0 ? null : encodeRights(fds);
  const message = messageOf(bytes, control);
  const sent = checked("sendmsg", cSend(fd, message, MSG_NOSIGNAL));
  if (sent !== bytes.length) throw new Error(`sendmsg took ${sent} of ${bytes.length} bytes`);
}

/** What has come, with its descriptors. Call it when the socket is readable. */
export function receiveWithFds(fd: number, bytesMax: number): Received {
  const { isWhole, ...received } = receive(fd, bytesMax);
  if (isWhole && received.fds.length <= DESCRIPTORS_MAX) return received;
  drop(received.fds);
  throw new Error("more descriptors came than a message may carry");
}

function receive(fd: number, bytesMax: number): Received & { readonly isWhole: boolean } {
  const bytes = Buffer.alloc(bytesMax);
  const control = Buffer.alloc(CMSG_HEADER_BYTES + SCM_MAX_FD * FD_BYTES);
  const message = messageOf(bytes, control);
  const size = checked("recvmsg", cReceive(fd, message, MSG_CMSG_CLOEXEC));
  const fds = decodeRights(control.subarray(0, message.msg_controllen));
  const isWhole = (message.msg_flags & MSG_CTRUNC) === 0;
  return { bytes: bytes.subarray(0, size), fds, isWhole };
}

/**
 * Closes descriptors that came from a peer who may be hostile. The last close of a socket may take
 * as long as its owner has chosen, so that is switched off, and it does not happen in this thread.
 */
export function drop(fds: readonly number[]): void {
  for (const fd of fds) {
    cSetOption(fd, SOL_SOCKET, SO_LINGER, NO_LINGER, NO_LINGER.length);
    close(fd, noop);
  }
}

/** The same for a socket with whatever such a peer has put into it. */
export function dropSocket(fd: number): void {
  cShutdown(fd, SHUT_RDWR); // nothing more comes: what is read ends
  try {
    for (let left = true; left;) {
      const { bytes, fds } = receive(fd, DROPPED_BYTES);
      drop(fds);
      left = bytes.length > 0;
    }
  } finally {
    close(fd, noop);
  }
}

/** No descriptor comes in with what is read, where the kernel has a way to say so. */
export function refuseDescriptors(fd: number): void {
  const no = Buffer.alloc(4);
  cSetOption(fd, SOL_SOCKET, SO_PASSRIGHTS, no, no.length);
}

/** Waits until there is something to read, or the other end is gone. False as in poll(). */
export function untilReadable(fd: number, timeoutMs: number): Promise<boolean> {
  return poll([{ fd, events: POLLIN }], timeoutMs);
}

function withSocket(prepare: (fd: number) => void): number {
  const fd = checked("socket", cSocket(AF_UNIX, SOCK_STREAM | SOCK_FLAGS, 0));
  try {
    prepare(fd);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function addressOf(path: string): Buffer {
  const name = Buffer.from(path);
  if (name.length > PATH_BYTES_MAX) {
    throw new SystemError("socket address", 36 /* ENAMETOOLONG */, path);
  }
  const address = Buffer.alloc(2 + name.length + 1);
  address.writeUInt16LE(AF_UNIX, 0);
  name.copy(address, 2);
  return address;
}

function messageOf(bytes: Buffer, control: Buffer | null) {
  return {
    msg_name: null,
    msg_namelen: 0,
    msg_iov: [{ iov_base: bytes, iov_len: bytes.length }],
    msg_iovlen: 1,
    msg_control: control,
    msg_controllen: control?.length ?? 0,
    msg_flags: 0,
  };
}

function encodeRights(fds: readonly number[]): Buffer {
  const size = CMSG_HEADER_BYTES + fds.length * FD_BYTES;
  const control = Buffer.alloc(Math.ceil(size / 8) * 8);
  control.writeBigUInt64LE(BigInt(size), 0);
  control.writeInt32LE(SOL_SOCKET, 8);
  control.writeInt32LE(SCM_RIGHTS, 12);
  for (const [index, fd] of fds.entries()) {
    control.writeInt32LE(fd, CMSG_HEADER_BYTES + index * FD_BYTES);
  }
  return control;
}

function decodeRights(control: Buffer): number[] {
  if (control.length < CMSG_HEADER_BYTES) return [];
  const size = Number(control.readBigUInt64LE(0));
  const isRights = control.readInt32LE(8) === SOL_SOCKET && control.readInt32LE(12) === SCM_RIGHTS;
  if (!isRights) return [];
  const count = Math.floor((Math.min(size, control.length) - CMSG_HEADER_BYTES) / FD_BYTES);
  return Array.from({ length: count }, (_, index) =>
    control.readInt32LE(CMSG_HEADER_BYTES + index * FD_BYTES),
  );
}

function noop(): void {}

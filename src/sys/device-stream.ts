import { closeSync, constants } from "node:fs";
import net from "node:net";
import { bind, checked, fcntl, O_CLOEXEC } from "./libc.ts";

const F_GETFL = 3;
const F_SETFL = 4;

const pipe2 = bind("int pipe2(_Out_ int *fds, int flags)");
const dup3 = bind("int dup3(int from, int to, int flags)");

export interface DeviceReads {
  /** Where the next message goes: asked for once at first, then behind each callback. */
  readonly buffer: () => Uint8Array;
  /** False: no further read before resume(). */
  readonly callback: (count: number, bytes: Uint8Array) => boolean;
}

/**
 * A character device read by Node's own event loop, as sockets are: without a thread that waits in
 * read(2), and so without the two wake-ups that a message through the thread pool costs. Node
 * refuses devices, so it opens one end of a pipe, and the device takes that number over before the
 * loop has looked at it. The device's file is non-blocking from now on, for all who share it.
 */
export function openDevice(fd: number, onread: DeviceReads): net.Socket {
  const ends = [0, 0];
  checked("pipe2", pipe2(ends, O_CLOEXEC));
  const [readEnd = -1, writeEnd = -1] = ends;
  try {
    const socket = new net.Socket({ fd: readEnd, readable: true, writable: false, onread });
    checked("dup3", dup3(fd, readEnd, O_CLOEXEC));
    const flags = checked("fcntl F_GETFL", fcntl(fd, F_GETFL, 0));
    checked("fcntl F_SETFL", fcntl(fd, F_SETFL, flags | constants.O_NONBLOCK));
    return socket;
  } finally {
    closeSync(writeEnd);
  }
}

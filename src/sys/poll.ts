import koffi from "koffi";
import { bind, inThread } from "./libc.ts";

export const POLLIN = 0x1;
export const POLLPRI = 0x2;
/** Comes unasked. */
export const POLLERR = 0x8;
export const FOREVER_MS = -1;

koffi.struct("pollfd", { fd: "int", events: "short", revents: "short" });
const cPoll = bind("int poll(_Inout_ pollfd *fds, unsigned long count, int timeoutMs)");

export interface PollFd {
  readonly fd: number;
  readonly events: number;
}

/**
 * Waits in a pool thread until one of the descriptors has an event. False: the time is over, or a
 * signal came in between; who still wants to wait asks again.
 */
export async function poll(wanted: readonly PollFd[], timeoutMs: number): Promise<boolean> {
  const fds = wanted.map(({ fd, events }) => ({ fd, events, revents: 0 }));
  return (await inThread(cPoll, fds, fds.length, timeoutMs)) > 0;
}

/** What is there now: without a wait, and without a thread. */
export function eventsOf({ fd, events }: PollFd): number {
  const asked = [{ fd, events, revents: 0 }];
  cPoll(asked, asked.length, 0);
  return asked[0]?.revents ?? 0;
}

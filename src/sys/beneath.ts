import { closeSync, constants, fstatSync, watch } from "node:fs";
import { SystemError, bind, checked } from "./libc.ts";

const SYS_OPENAT2 = 437;
const O_PATH = 0o10000000;
const O_CLOEXEC = 0o2000000;
const AT_FDCWD = -100;
const RESOLVE_NO_MAGICLINKS = 0x02n;
const RESOLVE_NO_SYMLINKS = 0x04n;
const RESOLVE_BENEATH = 0x08n;
const OPEN_HOW_BYTES = 24;

const openat2 = bind(
  "long syscall(long number, int at, const char *path, const void *how, size_t size)",
);

/** A place in the filesystem, held by descriptor: it stays the same whatever is renamed above. */
export class Place implements Disposable {
  readonly fd: number;

  constructor(fd: number) {
    this.fd = fd;
  }

  /** A path to this very place for calls that take only paths. */
  get path(): string {
    return `/proc/self/fd/${this.fd}`;
  }

  get isSocket(): boolean {
    return fstatSync(this.fd).isSocket();
  }

  [Symbol.dispose](): void {
    closeSync(this.fd);
  }
}

/** A trusted directory, by its path. */
export function openPlace(path: string): Place {
  return openAt(AT_FDCWD, path, RESOLVE_NO_MAGICLINKS);
}

/**
 * Waits until `names` exist, one inside the other, below a trusted directory, and gives what `take`
 * makes of the last; while that is undefined, it waits for the next change there. No link is
 * followed and nothing outside is reached, whoever owns the directories on the way.
 */
export async function untilBeneath<T>(
  root: string,
  names: readonly string[],
  take: (place: Place) => T | undefined,
  signal: AbortSignal,
): Promise<T> {
  const [last = "", ...above] = names.toReversed();
  let parent = openPlace(root);
  try {
    for (const name of above.toReversed()) {
      using left = parent;
      parent = await untilChild(left, name, (place) => place, signal);
    }
    return await untilChild(parent, last, (place) => takeAndClose(place, take), signal);
  } finally {
    parent[Symbol.dispose]();
  }
}

function takeAndClose<T>(place: Place, take: (place: Place) => T | undefined): T | undefined {
  using closing = place;
  return take(closing);
}

/** The watch is set before the look: what appears in between is not missed. */
async function untilChild<T>(
  parent: Place,
  name: string,
  take: (place: Place) => T | undefined,
  signal: AbortSignal,
): Promise<T> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  let over = false;
  const look = () => {
    if (over) return;
    try {
      const taken = take(openAt(parent.fd, name, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS));
      if (taken === undefined) return;
      over = true;
      resolve(taken);
    } catch (error) {
      if (!(error instanceof SystemError && error.code === "ENOENT")) reject(error);
    }
  };
  const watcher = watch(parent.path, look);
  watcher.once("error", reject);
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  look();
  try {
    return await promise;
  } finally {
    over = true;
    watcher.close();
    signal.removeEventListener("abort", abort);
  }
}

function openAt(at: number, path: string, resolveFlags: bigint): Place {
  const how = Buffer.alloc(OPEN_HOW_BYTES);
  how.writeBigUInt64LE(BigInt(O_PATH | O_CLOEXEC | constants.O_NOFOLLOW), 0);
  how.writeBigUInt64LE(resolveFlags, 16);
  return new Place(checked("openat2", openat2(SYS_OPENAT2, at, path, how, how.length), path));
}

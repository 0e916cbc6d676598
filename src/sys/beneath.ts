import { closeSync, fstatSync, watch } from "node:fs";
import type { FSWatcher } from "node:fs";
import { bind, checked, O_CLOEXEC, SystemError } from "./libc.ts";
import { onMountChange } from "./mount-watch.ts";

const SYS_OPENAT2 = 437;
const O_PATH = 0o10000000;
const AT_FDCWD = -100;
const RESOLVE_NO_MAGICLINKS = 0x02n;
const RESOLVE_NO_SYMLINKS = 0x04n;
const RESOLVE_BENEATH = 0x08n;
const OPEN_HOW_BYTES = 24;
/** From one look to the next: whoever owns the directories could make us do nothing else. */
const PAUSE_MS = 20;
/** Of other names, until it is looked all the same: not to hear of them for a while. */
const STRANGERS_MAX = 100;

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
function openPlace(path: string): Place {
  return openAt(AT_FDCWD, path, RESOLVE_NO_MAGICLINKS);
}

/**
 * Waits until `names` exist, one inside the other, below a trusted directory, and gives what `take`
 * makes of the last; while that is undefined, it waits for the next change. No link is followed and
 * nothing outside is reached, whoever owns the directories on the way.
 *
 * Each step of the way is watched. A last directory that is no mount point yet may become one: the
 * kubelet makes it first and mounts a memory volume on top of it afterwards, which no watch on a
 * directory tells. Only so long the mount table is looked at too: it changes hundreds of times
 * while a crowd of pods starts.
 */
export async function untilBeneath<T>(
  root: string,
  names: readonly string[],
  take: (place: Place) => T | undefined,
  signal: AbortSignal,
): Promise<T> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  let over = false;
  let lookedMs = -Infinity;
  let pause: NodeJS.Timeout | undefined;
  const look = () => {
    pause = undefined;
    if (over) return;
    try {
      const taken = way.look(take);
      lookedMs = performance.now();
      if (taken === undefined) return;
      over = true;
      resolve(taken);
    } catch (error) {
      over = true;
      reject(error);
    }
  };
  const lookSoon = () => {
    const pauseMs = lookedMs + PAUSE_MS - performance.now();
    if (pauseMs <= 0) look();
    else pause ??= setTimeout(look, pauseMs);
  };
  using way = new WatchedWay(openPlace(root), names, lookSoon);
  using _mounts = onMountChange(() => {
    if (way.mayBeMountedOn) lookSoon();
  });
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  look();
  try {
    return await promise;
  } finally {
    over = true;
    clearTimeout(pause);
    signal.removeEventListener("abort", abort);
  }
}

/** The same without waiting: undefined when it is not there now. */
export function lookBeneath<T>(
  root: string,
  names: readonly string[],
  take: (place: Place) => T | undefined,
): T | undefined {
  let place = openPlace(root);
  for (const name of names) {
    using here = place;
    const next = openIfThere(here, name);
    if (next === undefined) return undefined;
    place = next;
  }
  using last = place;
  return take(last);
}

interface WatchedDirectory {
  /** Device and inode: another directory of the same name is another directory. */
  readonly identity: string;
  readonly device: number;
  readonly watcher: FSWatcher;
}

/** The directories on the way to a place, each watched for the name that follows it. */
class WatchedWay implements Disposable {
  readonly #root: Place;
  readonly #names: readonly string[];
  readonly #changed: () => void;
  readonly #device: number;
  #watched: WatchedDirectory[] = [];

  constructor(root: Place, names: readonly string[], changed: () => void) {
    this.#root = root;
    this.#device = fstatSync(root.fd).dev;
    this.#names = names;
    this.#changed = changed;
  }

  /** The last directory is there, and still on the device where the way begins. */
  get mayBeMountedOn(): boolean {
    return this.#watched[this.#names.length - 1]?.device === this.#device;
  }

  /** Goes as far as the way exists. Watches are set before the look at what they watch for. */
  look<T>(take: (place: Place) => T | undefined): T | undefined {
    let place = openAt(this.#root.fd, ".", RESOLVE_BENEATH);
    for (const [depth, name] of this.#names.entries()) {
      using here = place;
      this.#watch(depth, here);
      const next = openIfThere(here, name);
      if (next === undefined) return this.#forget(depth + 1);
      place = next;
    }
    using last = place;
    return take(last);
  }

  [Symbol.dispose](): void {
    this.#forget(0);
    this.#root[Symbol.dispose]();
  }

  #watch(depth: number, directory: Place): void {
    const { dev, ino } = fstatSync(directory.fd);
    const identity = `${dev}:${ino}`;
    if (this.#watched[depth]?.identity === identity) return;
    this.#forget(depth);
    let strangers = 0;
    const watcher = watch(directory.path, (_event, name) => {
      const isOther = name !== null && name !== this.#names[depth];
      if (isOther && (strangers += 1) < STRANGERS_MAX) return;
      // What was below may be gone, and its inode number used again. And nothing more is heard
      // until the next look, which watches anew: one who makes changes without end is not followed.
      this.#forget(depth);
      this.#changed();
    });
    watcher.on("error", this.#changed); // the look that follows meets the cause
    this.#watched.push({ identity, device: dev, watcher });
  }

  #forget(depth: number): undefined {
    for (const { watcher } of this.#watched.splice(depth)) watcher.close();
  }
}

function openIfThere(parent: Place, name: string): Place | undefined {
  try {
    return openAt(parent.fd, name, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
  } catch (error) {
    if (error instanceof SystemError && error.code === "ENOENT") return undefined;
    throw error;
  }
}

function openAt(at: number, path: string, resolveFlags: bigint): Place {
  const how = Buffer.alloc(OPEN_HOW_BYTES);
  how.writeBigUInt64LE(BigInt(O_PATH | O_CLOEXEC), 0);
  how.writeBigUInt64LE(resolveFlags, 16);
  return new Place(checked("openat2", openat2(SYS_OPENAT2, at, path, how, how.length), path));
}

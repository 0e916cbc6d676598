import { mkdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import type { MountRequest } from "../handover/messages.ts";
import type { MounterLink } from "../handover/mounter-link.ts";
import { FuseConnection } from "../sys/fuse-connection.ts";
import { FUSE_FILESYSTEM_TYPE, mountFuse, openFuseDevice, unmount } from "../sys/fuse-mount.ts";
import { SystemError } from "../sys/libc.ts";
import { closeMountFds, createMountMemory, MOUNT_FDS } from "../sys/mount-fds.ts";
import { mountAt, readMounts } from "../sys/mount-info.ts";
import type { MountEntry } from "../sys/mount-info.ts";
import { raiseReadAhead } from "../sys/read-ahead.ts";
import type { MountpointPod } from "./cluster-view.ts";
import { mounterIfThere, untilMounter } from "./mounter-socket.ts";

const READ_AHEAD_KIB = 1024;
const MOUNT_WITHIN_MS = 110_000;
const FINISH_WITHIN_MS = 30_000;
/** With hostPID this is the host's first process: its mounts are what other pods may hold. */
const HOST_PID = 1;

/** A mounted source directory, as mountinfo shows it. */
export interface Source {
  readonly dir: string;
  readonly device: string;
}

export interface SourceTimes {
  readonly mounterMs: number;
  readonly engineMs: number;
}

export interface SourceMountsOptions {
  readonly kubeletPath: string;
  /** Below `kubeletPath`. */
  readonly mountsDir: string;
  readonly log: Log;
  readonly mountWithinMs?: number;
  readonly finishWithinMs?: number;
}

/** The FUSE mounts of this node, one per Mountpoint Pod: made once, shared, taken down once. */
export class SourceMounts {
  readonly #options: SourceMountsOptions;
  /** Being made or being taken down: each mount does one thing at a time. */
  readonly #busy = new Map<string, Promise<unknown>>();
  readonly #links = new Map<string, MounterLink>();

  constructor(options: SourceMountsOptions) {
    this.#options = options;
    mkdirSync(options.mountsDir, { recursive: true });
  }

  /** The mounts that exist, by id: what an earlier life of this process has made counts too. */
  ids(): string[] {
    const prefix = `${this.#options.mountsDir}/`;
    const entries = readMounts().filter((entry) => entry.mountPoint.startsWith(prefix));
    return [...new Set(entries.map((entry) => entry.mountPoint.slice(prefix.length)))];
  }

  /** The source of a Mountpoint Pod, mounted on the first call; later callers join or find it. */
  async ensure(
    pod: MountpointPod,
    request: MountRequest,
    readOnly: boolean,
    took: (times: SourceTimes) => void,
  ): Promise<Source> {
    return this.#exclusively(pod.mountId, async () => {
      const present = this.#findServed(pod.mountId);
      if (present !== undefined) return present;
      const signal = AbortSignal.timeout(this.#options.mountWithinMs ?? MOUNT_WITHIN_MS);
      const startedMs = performance.now();
      const link = await untilMounter(this.#options.kubeletPath, pod.uid, signal);
      const mounterMs = performance.now() - startedMs;
      const source = await this.#mount(pod, link, request, readOnly, signal);
      took({ mounterMs, engineMs: performance.now() - startedMs - mounterMs });
      return source;
    });
  }

  /**
   * Takes a mount down, if nothing is bound to it any more: unmount, let the engine complete its
   * writes, remove the directory. Without a pod there is nobody to tell. False: still in use. A
   * mounter that does not finish is a failure; the mount is gone all the same.
   */
  async remove(mountId: string, pod: MountpointPod | undefined): Promise<boolean> {
    return this.#exclusively(mountId, async () => {
      const source = this.#find(mountId);
      if (source !== undefined && this.#isBound(source)) return false;
      using connection = this.#connectionOf(source);
      const finished = pod === undefined ? undefined : this.#finish(mountId, pod, connection);
      finished?.catch(() => {}); // awaited below, when the mount is off
      try {
        if (source !== undefined) unmountSource(source.dir);
        removeDirectory(this.#dirOf(mountId));
      } finally {
        await finished; // in any case: it may still use the connection's handle
      }
      this.#forgetLink(mountId);
      if (source !== undefined) this.#options.log.info({ mount: mountId }, "source unmounted");
      return true;
    });
  }

  async #mount(
    pod: MountpointPod,
    link: MounterLink,
    request: MountRequest,
    readOnly: boolean,
    signal: AbortSignal,
  ): Promise<Source> {
    const dir = this.#dirOf(pod.mountId);
    await using rollback = new AsyncDisposableStack();
    rollback.use(link);
    const fds = { fuse: openFuseDevice(), ...createMountMemory() };
    // The mounter keeps them: its pod's death is still the end of the connection.
    using _closing = { [Symbol.dispose]: () => closeMountFds(fds) };
    mkdirSync(dir, { recursive: true });
    rollback.defer(() => removeDirectory(dir));
    mountFuse(fds.fuse, dir, { readOnly, source: `s3csi:${request.bucket}` });
    rollback.defer(() => unmount(dir, { detach: true }));
    const source = this.#find(pod.mountId);
    if (source === undefined) throw new Failure("remote", `${dir} is not mounted after mount(2)`);
    raiseReadAhead(source.device, READ_AHEAD_KIB);
    await link.mount(
      request,
      MOUNT_FDS.map((name) => fds[name]),
      signal,
    );
    rollback.move();
    this.#forgetLink(pod.mountId);
    this.#links.set(pod.mountId, link);
    return source;
  }

  /**
   * Sends its word before it returns, if the mounter is there: an engine whose mount was the last
   * ends by itself, and the mounter with it, before anybody could ask.
   */
  async #finish(
    mountId: string,
    pod: MountpointPod,
    connection: FuseConnection | undefined,
  ): Promise<void> {
    const signal = AbortSignal.timeout(this.#options.finishWithinMs ?? FINISH_WITHIN_MS);
    const { kubeletPath } = this.#options;
    const kept = this.#links.get(mountId);
    this.#links.delete(mountId);
    try {
      // A container that was started anew has another mounter: it too waits to be told.
      const now = kept?.isOpen === true ? kept : mounterIfThere(kubeletPath, pod.uid);
      using link = now ?? (await untilMounter(kubeletPath, pod.uid, signal));
      await link.finish(signal);
    } catch (error) {
      connection?.abort();
      throw error;
    }
  }

  #connectionOf(source: Source | undefined): FuseConnection | undefined {
    if (source === undefined) return undefined;
    try {
      return new FuseConnection(source.device);
    } catch (error) {
      this.#options.log.warn({ err: error }, "no handle to end the connection by force");
      return undefined;
    }
  }

  /**
   * A mount whose mounter has ended is dead. Who is bound to it keeps its error, until its pod is
   * made anew; who comes now gets a live one.
   */
  #findServed(mountId: string): Source | undefined {
    const source = this.#find(mountId);
    if (source === undefined || this.#links.get(mountId)?.isOpen !== false) return source;
    this.#options.log.warn({ mount: mountId }, "the mount has lost its engine: making it anew");
    this.#forgetLink(mountId);
    unmount(source.dir, { detach: true });
    return undefined;
  }

  #forgetLink(mountId: string): void {
    this.#links.get(mountId)?.[Symbol.dispose]();
    this.#links.delete(mountId);
  }

  async #exclusively<T>(mountId: string, work: () => Promise<T>): Promise<T> {
    const earlier = this.#busy.get(mountId) ?? Promise.resolve();
    const mine = earlier.then(work, work);
    this.#busy.set(mountId, mine);
    try {
      return await mine;
    } finally {
      if (this.#busy.get(mountId) === mine) this.#busy.delete(mountId);
    }
  }

  /** Has the host the mount besides its source? As long as it has, a pod may use it. */
  #isBound(source: Source): boolean {
    // The end of the path only: the kubelet's directory may be a link on the host.
    const suffix = source.dir.slice(this.#options.kubeletPath.length);
    return readMounts(HOST_PID).some(
      (entry) => entry.device === source.device && !entry.mountPoint.endsWith(suffix),
    );
  }

  #find(mountId: string): Source | undefined {
    const dir = this.#dirOf(mountId);
    const entry = mountAt(readMounts(), dir);
    return isOurs(entry) ? { dir, device: entry.device } : undefined;
  }

  #dirOf(mountId: string): string {
    return join(this.#options.mountsDir, mountId);
  }
}

function isOurs(entry: MountEntry | undefined): entry is MountEntry {
  return entry?.type === FUSE_FILESYSTEM_TYPE;
}

function unmountSource(dir: string): void {
  try {
    unmount(dir, { detach: false });
  } catch (error) {
    if (!(error instanceof SystemError && error.code === "EBUSY")) throw error;
    unmount(dir, { detach: true });
  }
}

function removeDirectory(dir: string): void {
  try {
    rmdirSync(dir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

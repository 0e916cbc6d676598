import { closeSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import type { MountRequest } from "../handover/messages.ts";
import type { MounterLink } from "../handover/mounter-link.ts";
import { FUSE_FILESYSTEM_TYPE, mountFuse, openFuseDevice, unmount } from "../sys/fuse-mount.ts";
import { SystemError } from "../sys/libc.ts";
import { createMemfd } from "../sys/memfd.ts";
import { mountAt, readMounts } from "../sys/mount-info.ts";
import type { MountEntry } from "../sys/mount-info.ts";
import { raiseReadAhead } from "../sys/read-ahead.ts";
import type { MountpointPod } from "./cluster-view.ts";
import { untilMounter } from "./mounter-socket.ts";

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
  readonly mountsDir: string;
  readonly log: Log;
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
    await this.#busy.get(pod.mountId)?.catch(() => {}); // its own caller hears of its failure
    const present = this.#find(pod.mountId);
    if (present !== undefined) return present;
    return this.#exclusively(pod.mountId, async () => {
      const signal = AbortSignal.timeout(MOUNT_WITHIN_MS);
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
   * writes, remove the directory. Without a pod there is nobody to tell. False: still in use.
   */
  async remove(mountId: string, pod: MountpointPod | undefined): Promise<boolean> {
    await this.#busy.get(mountId)?.catch(() => {});
    return this.#exclusively(mountId, async () => {
      const source = this.#find(mountId);
      if (source !== undefined) {
        if (this.#isBound(source)) return false;
        unmountSource(source.dir);
      }
      if (pod !== undefined && pod.phase !== "Succeeded" && pod.phase !== "Failed") {
        await this.#finish(mountId, pod, source);
      }
      removeDirectory(this.#dirOf(mountId));
      this.#options.log.info({ mount: mountId }, "source unmounted");
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
    const fuse = openFuseDevice();
    // The engine resumes nothing yet: were we to keep a copy, its death would hang the workloads.
    using _closing = { [Symbol.dispose]: () => closeSync(fuse) };
    const slots = createMemfd("s3csi-slots", 0);
    using _closingSlots = { [Symbol.dispose]: () => closeSync(slots) };
    mkdirSync(dir, { recursive: true });
    rollback.defer(() => removeDirectory(dir));
    mountFuse(fuse, dir, { readOnly, source: `s3csi:${request.bucket}` });
    rollback.defer(() => unmount(dir, { detach: true }));
    const source = this.#find(pod.mountId);
    if (source === undefined) throw new Failure("remote", `${dir} is not mounted after mount(2)`);
    raiseReadAhead(source.device, READ_AHEAD_KIB);
    await link.mount(request, [fuse, slots], signal);
    rollback.move();
    this.#links.set(pod.mountId, link);
    return source;
  }

  async #finish(mountId: string, pod: MountpointPod, source: Source | undefined): Promise<void> {
    const signal = AbortSignal.timeout(FINISH_WITHIN_MS);
    const { kubeletPath, log } = this.#options;
    try {
      const kept = this.#links.get(mountId);
      using link = kept ?? (await untilMounter(kubeletPath, pod.uid, signal));
      await link.finish(signal);
    } catch (error) {
      log.warn({ mount: mountId, pod: pod.name, err: error }, "the mounter did not finish");
      if (source !== undefined) abortConnection(source);
    } finally {
      this.#links.delete(mountId);
    }
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

/** Ends a connection by force; the minor number of the device is its name. */
function abortConnection(source: Source): void {
  const [, minor = ""] = source.device.split(":");
  try {
    writeFileSync(`/sys/fs/fuse/connections/${minor}/abort`, "1");
  } catch {
    // it has ended meanwhile
  }
}

function removeDirectory(dir: string): void {
  try {
    rmdirSync(dir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

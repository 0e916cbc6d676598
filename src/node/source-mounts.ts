import { mkdirSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import { KeyedQueue } from "../base/keyed-queue.ts";
import { NextRun } from "../base/next-run.ts";
import type { Credentials, MountSpec } from "../handover/messages.ts";
import type { MounterLink } from "../handover/mounter-link.ts";
import { mountFuse, openFuseDevice, unmount } from "../sys/fuse-mount.ts";
import { closeAll, createMountMemory, listOf } from "../sys/mount-fds.ts";
import type { MountFds } from "../sys/mount-fds.ts";
import { raiseReadAhead } from "../sys/read-ahead.ts";
import { drop } from "../sys/unix-socket.ts";
import { canResume } from "../volume/engine.ts";
import { isBound } from "./binds.ts";
import { byGenerationDown } from "./cluster-view.ts";
import type { MountpointPod } from "./cluster-view.ts";
import { DeadMounts } from "./dead-mounts.ts";
import { GivenMount } from "./given-mount.ts";
import { HeldMount } from "./held-mount.ts";
import type { Surroundings } from "./held-mount.ts";
import type { KeptMount, MountNews, MountState, Server, Source } from "./kept-mount.ts";
import { finishUnheld, mounterIfThere, untilMounter } from "./mounter-socket.ts";
import { checkReturned } from "./returned-mount.ts";
import {
  connectionOf,
  removeDirectory,
  SourceDirectories,
  unmountSource,
} from "./source-directory.ts";
import { surroundingsOf } from "./surroundings.ts";
import type { SurroundingsOptions } from "./surroundings.ts";

const READ_AHEAD_KIB = 1024;
const MOUNT_WITHIN_MS = 110_000;
const FINISH_WITHIN_MS = 30_000;
const SHARE_WITHIN_MS = 2_000;

export interface SourceTimes {
  readonly mounterMs: number;
  readonly engineMs: number;
}

export interface SourceMountsOptions extends SurroundingsOptions {
  /** Below `kubeletPath`. */
  readonly mountsDir: string;
  /** The driver's own keys as they are now, if the pod's mount uses them. */
  readonly driverKeys?: (pod: MountpointPod) => Credentials | undefined;
  readonly mountWithinMs?: number;
  readonly finishWithinMs?: number;
}

/** The FUSE mounts of this node, one for all who share: made once, kept alive, taken down once. */
export class SourceMounts implements Disposable {
  readonly #options: SourceMountsOptions;
  /** Being made or being taken down: each mount does one thing at a time. */
  readonly #queue = new KeyedQueue();
  readonly #held = new Map<string, KeptMount>();
  readonly #dead: DeadMounts;
  readonly #directories: SourceDirectories;
  readonly #around: Surroundings;
  readonly #following: Disposable;
  /** A list of pods reports each of them: all that come during a run share the next one. */
  readonly #adoption = new NextRun(() => this.#adoptUnheld());

  constructor(options: SourceMountsOptions) {
    this.#options = options;
    this.#dead = new DeadMounts(options.kubeletPath, options.onNews);
    const onNews = (news: MountNews) => this.#dead.heard(news);
    this.#around = surroundingsOf({ ...options, onNews }, (mount) => {
      if (this.#held.get(mount.mountId) === mount) this.#held.delete(mount.mountId);
    });
    this.#directories = new SourceDirectories(options.mountsDir, options.log);
    // The end of a mounter whose connection broke off before shows in its pod's status alone.
    this.#following = options.view.onMountpointPodChange(() => {
      this.adoptAll().catch((error: unknown) => {
        options.log.warn({ err: error }, "failed to adopt mounts");
      });
    });
  }

  /** The mounts that exist, by id, and those of which but the directory is left. */
  ids(): string[] {
    return this.#directories.ids();
  }

  /** How the mount with this device is served; undefined when nobody here holds it. */
  stateOf(device: string): MountState | undefined {
    return this.#heldAt(device)?.state;
  }

  /**
   * Has this mount lost its engine for good? One that we do not hold may still be served by a
   * mounter that did not answer in time: in doubt it lives, and nobody waits long for the answer.
   */
  async isDead(device: string): Promise<boolean> {
    if (this.#heldAt(device) !== undefined) return false;
    const mountId = this.#directories.idOf(device);
    const pods = this.#options.view.pods().filter((pod) => pod.mountId === mountId);
    if (mountId !== undefined && this.#queue.isBusy(mountId)) return false;
    for (const pod of pods) {
      try {
        const adopt = async () => this.#held.get(pod.mountId) ?? (await this.#adopt(pod));
        if ((await this.#queue.run(pod.mountId, adopt)) !== undefined) return false;
      } catch (error) {
        this.#options.log.warn({ mount: mountId, err: error }, "mount liveness unknown");
        return false;
      }
    }
    return true;
  }

  /** Changes the keys of a running mount, when they are others than before. */
  async rekey(device: string, credentials: Credentials | null): Promise<void> {
    await this.#heldAt(device)?.rekey(credentials);
  }

  /** Hands the driver's present credentials to every mount that is signed with them. */
  async refreshDriverKeys(): Promise<void> {
    await Promise.all(
      Array.from(this.#held.values(), (held) =>
        this.#give(held, () => this.#options.driverKeys?.(held.pod)),
      ),
    );
  }

  /** The source of a Mountpoint Pod, mounted on the first call; later callers join or find it. */
  async ensure(
    pod: MountpointPod,
    spec: MountSpec,
    readOnly: boolean,
    took: (times: SourceTimes) => void,
    moved = new AbortController().signal,
  ): Promise<Source> {
    return this.#queue.run(pod.mountId, async () => {
      const present = this.#held.get(pod.mountId) ?? (await this.#adoptOrClear(pod));
      if (present !== undefined) {
        // Credentials of this publish may be newer than those of the mount; the driver's may have
        // been rotated while it waited in the queue.
        void this.#give(present, () => this.#options.driverKeys?.(pod) ?? spec.credentials);
        return present.source;
      }
      const limit = AbortSignal.timeout(this.#options.mountWithinMs ?? MOUNT_WITHIN_MS);
      const signal = AbortSignal.any([limit, moved]);
      const startedMs = performance.now();
      const link = await untilMounter(this.#options.kubeletPath, pod.uid, signal);
      const mounterMs = performance.now() - startedMs;
      const source = await this.#mount(pod, link, spec, readOnly, signal);
      took({ mounterMs, engineMs: performance.now() - startedMs - mounterMs });
      return source;
    });
  }

  /**
   * Mounts that are not held, since this process restarted or lost the connection to a mounter, are
   * held again, by copies that the mounters still have. A mounter that does not answer delays
   * nobody. The workloads of a mount whose engine has ended meanwhile are told.
   */
  adoptAll(): Promise<void> {
    return this.#adoption.result();
  }

  /** A mount that is under work is left to that work: nothing queues up behind a silent mounter. */
  async #adoptUnheld(): Promise<void> {
    const isLeft = (id: string) => !this.#held.has(id) && !this.#queue.isBusy(id);
    const unheld = new Set(this.ids().filter(isLeft));
    const pods = this.#options.view.pods().filter((pod) => unheld.has(pod.mountId));
    const inDoubt = new Set<string>();
    await Promise.all(
      pods.map((pod) =>
        this.#queue
          .run(pod.mountId, async () => {
            if (!this.#held.has(pod.mountId)) await this.#adopt(pod);
          })
          .catch((error: unknown) => {
            inDoubt.add(pod.mountId);
            const fields = { mount: pod.mountId, mountpoint: pod.name, err: error };
            this.#options.log.warn(fields, "a mount of an earlier life is not held");
          }),
      ),
    );
    for (const [mountId, serving] of Map.groupBy(pods, (pod) => pod.mountId)) {
      const [last] = serving.toSorted(byGenerationDown);
      const source = this.#directories.find(mountId);
      const isOpen = inDoubt.has(mountId) || this.#held.has(mountId) || this.#queue.isBusy(mountId);
      if (last !== undefined && source !== undefined && !isOpen) this.#dead.found(source, last);
    }
  }

  /**
   * Takes a mount down, if nothing is bound to it any more: unmount, let the engine complete its
   * writes, remove the directory. Without a pod there is nobody to tell. False: still in use. A
   * mounter that does not finish is a failure; the mount is gone all the same.
   */
  async remove(mountId: string, pod: MountpointPod | undefined): Promise<boolean> {
    const { kubeletPath } = this.#options;
    return this.#queue.run(mountId, async () => {
      const source = this.#directories.find(mountId);
      if (source !== undefined && isBound(source, kubeletPath)) return false;
      const signal = AbortSignal.timeout(this.#options.finishWithinMs ?? FINISH_WITHIN_MS);
      const held = this.#held.get(mountId);
      const server = held?.pod.uid;
      // Acknowledged writes may wait for the next engine: with the mount they would be gone.
      await held?.untilServed(signal).catch(() => {});
      using connection = held === undefined ? connectionOf(source, this.#options.log) : undefined;
      const finished =
        held?.finish(signal) ?? finishUnheld(pod?.uid, kubeletPath, signal, connection);
      finished.catch(() => {}); // awaited below, when the mount is off
      try {
        if (source !== undefined) unmountSource(source.dir);
        removeDirectory(this.#directories.dirOf(mountId));
      } finally {
        await finished; // in any case: it may still use the connection's handle
      }
      if (source !== undefined) this.#options.log.info({ mount: mountId }, "source unmounted");
      // A successor that came too late to serve waits all the same.
      const isLate = server !== undefined && server !== pod?.uid;
      if (isLate) await finishUnheld(pod?.uid, kubeletPath, signal);
      return true;
    });
  }

  /**
   * Ends the mounter of a pod that another has replaced. It may have missed the kubelet's signal:
   * the first process of a container gets none before it listens. False: it still serves.
   */
  async dismiss(pod: MountpointPod): Promise<boolean> {
    const held = this.#held.get(pod.mountId);
    // Mounted and not held: it may be this very one that serves it.
    if (held === undefined && this.#directories.find(pod.mountId) !== undefined) return false;
    if (held?.pod.uid === pod.uid) return false;
    const signal = AbortSignal.timeout(this.#options.finishWithinMs ?? FINISH_WITHIN_MS);
    await finishUnheld(pod.uid, this.#options.kubeletPath, signal);
    return true;
  }

  /**
   * Resolves when every mount has an engine, or after a while. To be waited for before this process
   * ends: where a whole container is dead, nobody else holds the mount until the next one does.
   */
  async untilAllServed(withinMs: number): Promise<void> {
    const signal = AbortSignal.timeout(withinMs);
    const waiting = this.#held.values().filter(({ state }) => state.is === "waiting");
    await Promise.allSettled(Array.from(waiting, (held) => held.untilServed(signal)));
  }

  /** This process ends: the mounts do not. */
  [Symbol.dispose](): void {
    this.#following[Symbol.dispose]();
    for (const held of this.#held.values()) held.letGo();
  }

  async #mount(
    pod: MountpointPod,
    link: MounterLink,
    spec: MountSpec,
    readOnly: boolean,
    signal: AbortSignal,
  ): Promise<Source> {
    const dir = this.#directories.dirOf(pod.mountId);
    await using rollback = new AsyncDisposableStack();
    rollback.use(link);
    const fuse = openFuseDevice();
    let fds = [fuse];
    rollback.defer(() => closeAll(fds));
    const all = canResume(pod.mountId) ? { fuse, ...createMountMemory() } : undefined;
    if (all !== undefined) fds = listOf(all);
    mkdirSync(dir, { recursive: true });
    rollback.defer(() => removeDirectory(dir));
    mountFuse(fuse, dir, { readOnly, source: `s3csi:${spec.bucket}` });
    rollback.defer(() => unmount(dir, { detach: true }));
    const source = this.#directories.find(pod.mountId);
    if (source === undefined) throw new Failure("remote", `${dir} is not mounted after mount(2)`);
    this.#dead.isNew(source);
    raiseReadAhead(source.device, READ_AHEAD_KIB);
    await link.mount(spec, fds, { resume: false }, signal);
    rollback.move();
    if (all === undefined) closeAll(fds);
    const held = this.#hold(source, all, spec, { pod, link });
    // The driver's may have been rotated while the engine started.
    void this.#give(held, () => this.#options.driverKeys?.(pod));
    return source;
  }

  /** Without descriptors where nobody could go on with them. */
  #hold(source: Source, fds: MountFds | undefined, spec: MountSpec, server: Server): KeptMount {
    const { mountId } = server.pod;
    const parts = { mountId, source, connection: connectionOf(source, this.#options.log) };
    const held =
      fds === undefined
        ? new GivenMount(parts, spec.credentials, server, this.#around)
        : new HeldMount({ ...parts, fds }, spec, server, this.#around);
    this.#held.set(mountId, held);
    return held;
  }

  /** Asks a mounter for copies of what it serves. Undefined: it serves nothing. */
  async #adopt(pod: MountpointPod): Promise<KeptMount | undefined> {
    const link = mounterIfThere(this.#options.kubeletPath, pod.uid);
    if (link === undefined) return undefined;
    await using rollback = new AsyncDisposableStack();
    rollback.use(link);
    const shared = await link.share(AbortSignal.timeout(SHARE_WITHIN_MS));
    if (shared === undefined) return undefined;
    const source = this.#directories.find(pod.mountId);
    if (source === undefined) {
      drop(shared.fds);
      return undefined;
    }
    const { mountId } = pod;
    const fds = canResume(mountId) ? checkReturned(shared.fds, source.device) : undefined;
    if (fds === undefined) drop(shared.fds);
    rollback.move();
    this.#options.log.info({ mount: mountId, mountpoint: pod.name }, "mount held again");
    const held = this.#hold(source, fds, shared.spec, { pod, link });
    // They may be others in this life of the process. Who has a right to them is not for it to say.
    void this.#give(held, () => this.#options.driverKeys?.(pod));
    return held;
  }

  /** Best effort: who waits for the mount does not wait for its keys. */
  async #give(held: KeptMount, find: () => Credentials | null | undefined): Promise<void> {
    try {
      const keys = find();
      if (keys !== undefined) await held.rekey(keys);
    } catch (error) {
      this.#options.log.warn({ mount: held.mountId, err: error }, "failed to refresh credentials");
    }
  }

  /** A mount that nobody serves is no mount: it was half made, or has lost its engine for good. */
  async #adoptOrClear(pod: MountpointPod): Promise<KeptMount | undefined> {
    const source = this.#directories.find(pod.mountId);
    if (source === undefined) return undefined;
    for (const one of this.#options.view.pods()) {
      const adopted = one.mountId === pod.mountId ? await this.#adopt(one) : undefined;
      if (adopted !== undefined) return adopted;
    }
    this.#dead.found(source, pod);
    this.#options.log.warn({ mount: pod.mountId }, "the mount has no engine: making it anew");
    unmount(source.dir, { detach: true });
    return undefined;
  }

  /** One that ends gives its number back before it has ended, and the next mount may have it. */
  #heldAt(device: string): KeptMount | undefined {
    const isThere = (one: KeptMount) => one.source.device === device && !one.isEnding;
    return this.#held.values().find(isThere);
  }
}

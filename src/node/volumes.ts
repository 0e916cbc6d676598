import { mkdirSync, rmdirSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { KeyedLock } from "../base/keyed-lock.ts";
import type { Log } from "../base/log.ts";
import { within } from "../base/within.ts";
import { bindMount } from "../sys/bind-mount.ts";
import { FUSE_FILESYSTEM_TYPE, unmount } from "../sys/fuse-mount.ts";
import { mountAt, readMounts } from "../sys/mount-info.ts";
import type { MountEntry } from "../sys/mount-info.ts";
import { canResume, engineOf } from "../volume/engine.ts";
import { planMount } from "../volume/mount-options.ts";
import type { MountPolicy } from "../volume/mount-options.ts";
import { byGenerationDown, isOver } from "./cluster-view.ts";
import type { Assignment, Claimant, ClusterView, MountpointPod } from "./cluster-view.ts";
import { secretWarnings } from "./driver-credentials.ts";
import type { Source } from "./kept-mount.ts";
import { keysFor, mountSpecFor } from "./mount-spec.ts";
import type { PublishRequest, Target } from "./publish-request.ts";
import type { SourceMounts, SourceTimes } from "./source-mounts.ts";
import { StopWatch } from "./stop-watch.ts";

export interface VolumesOptions {
  readonly view: Pick<
    ClusterView,
    "untilAssigned" | "untilMoved" | "untilScheduled" | "untilLeaving" | "problemOf" | "pods"
  >;
  readonly sources: SourceMounts;
  /** Holds the driver's credentials, endpoint and region. */
  readonly env: Environment;
  readonly userAgent: string;
  /** What a volume may choose for itself. */
  readonly policy?: MountPolicy;
  /** Words for the user who looks at the workload. */
  readonly warn?: (request: PublishRequest, note: string) => void;
  readonly log: Log;
}

/** What the API server may take to say why a pod does not run, when time is up already. */
const EXPLAIN_WITHIN_MS = 2_000;

/** Publish and unpublish: what the kubelet asks for, on this node. */
export class Volumes {
  readonly #options: VolumesOptions;
  readonly #locks = new KeyedLock();
  /** Mounts that are being taken down: what changes meanwhile is looked at afterwards, once. */
  readonly #settling = new Map<string, "under way" | "look again">();
  /** Replaced Mountpoint Pods that are being told to end. */
  readonly #dismissing = new Set<string>();
  /** Mountpoint Pods that have finished, though the API server may still call them running. */
  #finished = new Set<string>();

  constructor(options: VolumesOptions) {
    this.#options = options;
  }

  async publish(request: PublishRequest, signal: AbortSignal): Promise<void> {
    const { target } = request;
    using _lock = this.#locks.hold(target.path);
    if (await this.#isPublished(request)) return;
    if (request.isSingle === true) refuseSecond(target);
    const clock = new StopWatch();
    const source = await this.#whileWanted(request, signal, (wanted) =>
      this.#source(request, wanted, clock),
    );
    if (request.isSingle === true) refuseSecond(target); // another may have come meanwhile
    bind(source, target, request.readOnly);
    clock.lap("bind_ms");
    const fields = { volume: request.volumeId, pod: request.workloadUid };
    this.#options.log.info({ ...fields, ...clock.laps() }, "volume published");
  }

  async unpublish(target: Target): Promise<void> {
    using _lock = this.#locks.hold(target.path);
    // A republish may have raced with an earlier one: take off all layers, the top one first.
    while (mountAt(readMounts(), target.path) !== undefined) {
      unmount(target.path, { detach: true });
    }
    try {
      rmdirSync(target.path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    this.#options.log.info({ pod: target.podUid, pv: target.pvName }, "volume unpublished");
    this.settleAll();
  }

  /** Takes down every mount that the controller has let go, or that has no Mountpoint Pod. */
  settleAll(): void {
    const { view, sources } = this.#options;
    const pods = [...view.pods()];
    this.#finished = this.#finished.intersection(new Set(pods.map((pod) => pod.uid)));
    const made = new Set(sources.ids());
    for (const id of made.union(new Set(pods.map((pod) => pod.mountId)))) {
      const serving = pods.filter((pod) => pod.mountId === id);
      this.#settle(id, serving, made.has(id));
    }
  }

  /** The last generation counts: those before it have been replaced. */
  #settle(mountId: string, pods: readonly MountpointPod[], isMade: boolean): void {
    const { sources, log } = this.#options;
    const live = pods.filter((one) => !isOver(one) && !this.#finished.has(one.uid));
    const [last, ...replaced] = live.toSorted(byGenerationDown);
    for (const one of replaced) this.#dismiss(one);
    // Nobody takes over from one that can't be followed: it leaves as soon as it is free to.
    const leaves = last !== undefined && isMade && last.leaving && !canResume(mountId);
    if (last !== undefined && !last.needsUnmount && !leaves) return;
    if (last === undefined && !isMade) return;
    const earlier = this.#settling.get(mountId);
    this.#settling.set(mountId, earlier === undefined ? "under way" : "look again");
    if (earlier !== undefined) return;
    const settled = sources.remove(mountId, last).then(
      (done) => done && last !== undefined && this.#finished.add(last.uid),
      (error: unknown) => {
        const fields = { mount: mountId, mountpoint: last?.name, err: error };
        log.warn(fields, "a mount was not taken down in order");
      },
    );
    void settled.then(() => {
      const next = this.#settling.get(mountId);
      this.#settling.delete(mountId);
      if (next === "look again") this.settleAll();
    });
  }

  #dismiss(pod: MountpointPod): void {
    if (this.#dismissing.has(pod.uid)) return;
    this.#dismissing.add(pod.uid);
    const { sources, log } = this.#options;
    const dismissed = sources.dismiss(pod).then(
      (done) => done && this.#finished.add(pod.uid),
      (error: unknown) => {
        log.debug({ mountpoint: pod.name, err: error }, "a replaced pod was not told to end");
      },
    );
    void dismissed.then(() => this.#dismissing.delete(pod.uid));
  }

  /**
   * The target as mountinfo shows it. What a mount of ours is bound there is left as it is, and its
   * keys are made fresh. Over a mount of the driver's first version, of which nobody here can tell
   * whether it lives, ours is put on top: who still uses it keeps it. Whatever else is there was
   * left by a crash, or has lost its engine for good: it is taken off.
   */
  async #isPublished(request: PublishRequest): Promise<boolean> {
    const { target, volumeId } = request;
    const entry = mountAt(readMounts(), target.path);
    if (entry === undefined) return false;
    if (isFirstVersion(entry)) return false;
    if (!(await this.#options.sources.isDead(entry.device))) {
      this.#refresh(request, entry);
      return true;
    }
    this.#options.log.warn({ volume: volumeId, pod: target.podUid }, "a dead mount is replaced");
    unmount(target.path, { detach: true });
    return this.#isPublished(request);
  }

  /** In the background: the kubelet asks every minute or so, and waits for no mounter. */
  #refresh(request: PublishRequest, { device }: MountEntry): void {
    const { sources, log } = this.#options;
    const failed = (error: unknown) => {
      log.warn({ volume: request.volumeId, err: error }, "the keys were not made fresh");
    };
    try {
      const plan = planMount(request.mountOptions, "");
      void sources.rekey(device, keysFor(request, plan, this.#options.env)).catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  /** A pod that is deleted while it waits for its volume must not wait for it any longer. */
  async #whileWanted<T>(
    { workloadUid }: PublishRequest,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const over = new AbortController();
    const leaving = this.#options.view.untilLeaving(workloadUid, over.signal).then(() => {
      throw new Failure("refused", `pod ${workloadUid} is being deleted: it needs no volume`);
    });
    try {
      return await Promise.race([leaving, work(AbortSignal.any([signal, over.signal]))]);
    } finally {
      leaving.catch(() => {});
      over.abort();
    }
  }

  /** From the pod that the workload is assigned to, and from its successor when that changes. */
  async #source(request: PublishRequest, signal: AbortSignal, clock: StopWatch): Promise<Source> {
    const { workloadUid, volumeId, target } = request;
    const claimant = { workloadUid, volumeId, pvName: target.pvName };
    for (;;) {
      const assignment = await this.#assigned(claimant, signal);
      clock.lap("attachment_ms");
      const left = new AbortController();
      const moved = this.#options.view.untilMoved(claimant, assignment.pod, left.signal);
      const serving = this.#served(request, assignment, signal, left.signal, clock);
      serving.catch(() => {}); // of no interest once the workload has moved
      try {
        const source = await Promise.race([serving, moved]);
        if (source !== undefined) return source;
      } finally {
        moved.catch(() => {});
        left.abort();
      }
    }
  }

  async #served(
    request: PublishRequest,
    assignment: Assignment,
    signal: AbortSignal,
    moved: AbortSignal,
    clock: StopWatch,
  ): Promise<Source> {
    const { view } = this.#options;
    const name = assignment.pod;
    const either = AbortSignal.any([signal, moved]);
    const late = async (what: string, reason: unknown): Promise<never> => {
      if (!signal.aborted) throw reason;
      const problem = await view
        .problemOf(name, AbortSignal.timeout(EXPLAIN_WITHIN_MS))
        .catch(() => undefined);
      const why = problem === undefined ? "" : `: ${problem}`;
      throw new Failure("timeout", `Timed out waiting for Mountpoint Pod ${name} ${what}${why}`);
    };
    const scheduled = view.untilScheduled(name, either);
    const pod = await scheduled.catch((reason: unknown) => late("to be here", reason));
    clock.lap("scheduled_ms");
    const serving = this.#ensure(request, assignment, pod, moved, clock);
    const source = await within(serving, either, (reason) => reason as Error).catch(
      (reason: unknown) => late("to serve", reason),
    );
    clock.lap("source_ms");
    return source;
  }

  #assigned(claimant: Claimant, signal: AbortSignal): Promise<Assignment> {
    const assigned = this.#options.view.untilAssigned(claimant, signal);
    return within(assigned, signal, (reason) => {
      const words = "Timed out waiting for MountpointS3PodAttachment: is the controller running?";
      return new Failure("timeout", words, reason);
    });
  }

  async #ensure(
    request: PublishRequest,
    assignment: Assignment,
    pod: MountpointPod,
    moved: AbortSignal,
    clock: StopWatch,
  ): Promise<Source> {
    const { mountOptions, context, secrets } = request;
    const fsGroup = assignment.spec.workloadFSGroup;
    const plan = planMount(mountOptions, fsGroup, this.#options.policy, context.cache);
    for (const warning of [
      ...plan.warnings,
      ...secretWarnings(context.authenticationSource, secrets),
    ]) {
      this.#options.log.warn({ volume: request.volumeId, warning }, "a setting is not used");
      this.#options.warn?.(request, warning);
    }
    const took = ({ mounterMs, engineMs }: SourceTimes) => {
      clock.set("mounter_ms", mounterMs);
      clock.set("engine_ms", engineMs);
    };
    const spec = mountSpecFor(request, plan, this.#options, engineOf(pod.mountId));
    // Not by the bind alone: some runtimes (crun) make the pod's copy of one writable again.
    const readOnly = plan.readOnly || request.isReadOnlyVolume;
    return this.#options.sources.ensure(pod, spec, readOnly, took, moved);
  }
}

/** Made by the driver's first version on the host itself: nothing here knows how to serve it. */
function isFirstVersion({ type, source }: MountEntry): boolean {
  return type === "fuse" && source === "mountpoint-s3";
}

/** The scheduler keeps a volume of one pod to it; who comes past it is stopped here. */
function refuseSecond({ path, pvName }: Target): void {
  const suffix = `/volumes/kubernetes.io~csi/${pvName}/mount`;
  const other = readMounts().find(
    ({ type, mountPoint }) =>
      type === FUSE_FILESYSTEM_TYPE && mountPoint !== path && mountPoint.endsWith(suffix),
  );
  if (other === undefined) return;
  throw new Failure("refused", `volume ${pvName} is ReadWriteOncePod and in use by another pod`);
}

/** Only what mountinfo has just shown at the source is bound: right type, right device. */
function bind(source: Source, target: Target, readOnly: boolean): void {
  const entry = mountAt(readMounts(), source.dir);
  if (entry?.type !== FUSE_FILESYSTEM_TYPE || entry.device !== source.device) {
    throw new Failure("remote", `the mount at ${source.dir} has gone meanwhile`);
  }
  makeTarget(target);
  bindMount(source.dir, target.path, { readOnly });
}

/** Not its parents, which are the kubelet's: where they are missing, the pod has been removed. */
function makeTarget({ path, podUid }: Target): void {
  try {
    mkdirSync(path, { mode: 0o750 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") throw new Failure("absent", `pod ${podUid} has no directory for it`);
    if (code !== "EEXIST") throw error;
  }
}

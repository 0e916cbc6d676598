import { mkdirSync, rmdirSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../base/failure.ts";
import { KeyedLock } from "../base/keyed-lock.ts";
import type { Log } from "../base/log.ts";
import { within } from "../base/within.ts";
import { bindMount } from "../sys/bind-mount.ts";
import { FUSE_FILESYSTEM_TYPE, unmount } from "../sys/fuse-mount.ts";
import { mountAt, readMounts } from "../sys/mount-info.ts";
import type { MountEntry } from "../sys/mount-info.ts";
import { canResume, engineOf } from "../volume/engine.ts";
import { STRICT, planMount } from "../volume/mount-options.ts";
import type { MountPolicy } from "../volume/mount-options.ts";
import { envWarnings } from "../volume/mountpoint-env.ts";
import { byGenerationDown, isOver } from "./cluster-view.ts";
import type { Assignment, Claimant, ClusterView, MountpointPod } from "./cluster-view.ts";
import { secretWarnings } from "./driver-credentials.ts";
import type { Source } from "./kept-mount.ts";
import { keysFor, mountSpecFor } from "./mount-spec.ts";
import type { DriverSettings } from "./mount-spec.ts";
import { Preparations, WAITS_FOR_ATTACHMENT } from "./preparations.ts";
import type { Preparation } from "./preparations.ts";
import type { PublishRequest, Target } from "./publish-request.ts";
import { PUBLISH_TIMES, untilPrepared } from "./publish-wait.ts";
import type { PublishTimes } from "./publish-wait.ts";
import type { SourceMounts, SourceTimes } from "./source-mounts.ts";
import type { StopWatch } from "./stop-watch.ts";
import { VolumeTurn } from "./volume-turn.ts";

export interface VolumesOptions extends DriverSettings {
  readonly view: Pick<
    ClusterView,
    | "isAssigned"
    | "heldBackWhy"
    | "onAttachmentChange"
    | "untilAssigned"
    | "untilMoved"
    | "untilScheduled"
    | "untilLeaving"
    | "attachmentsProblem"
    | "followProblem"
    | "finishedPods"
    | "onPodFinished"
    | "pods"
  >;
  readonly sources: SourceMounts;
  /** What a volume may choose for itself. */
  readonly policy?: MountPolicy;
  /** The reason why this node can mount no volume. */
  readonly refusal?: () => string | undefined;
  /** Words for the user who looks at the workload. */
  readonly warn?: (request: PublishRequest, note: string) => void;
  readonly log: Log;
  readonly times?: Partial<PublishTimes>;
}

/** Publish and unpublish: what the kubelet asks for, on this node. */
export class Volumes {
  readonly #options: VolumesOptions;
  readonly #times: PublishTimes;
  readonly #preparations: Preparations;
  readonly #locks = new KeyedLock();
  /** Mounts that are being taken down: what changes meanwhile is looked at afterwards, once. */
  readonly #settling = new Map<string, "under way" | "look again">();
  /** Replaced Mountpoint Pods whose mounters are being asked to finish. */
  readonly #dismissing = new Set<string>();
  /** Mountpoint Pods that have finished, though the API server may still call them running. */
  #finished = new Set<string>();

  constructor(options: VolumesOptions) {
    this.#options = options;
    this.#times = { ...PUBLISH_TIMES, ...options.times };
    this.#preparations = new Preparations(options.log);
  }

  /** The signal is the caller's deadline. What is under way then goes on for the next call. */
  async publish(request: PublishRequest, signal: AbortSignal): Promise<void> {
    const { target } = request;
    using _lock = this.#locks.hold(target.path);
    if (await this.#isPublished(request)) return;
    const refusal = this.#options.refusal?.();
    if (refusal !== undefined) throw new Failure("refused", refusal);
    if (request.isSingle === true) refuseSecond(target);
    const preparation = this.#preparations.join(request, (one, ending) =>
      this.#whileWanted(request, ending, (wanted) => this.#source(request, one, wanted)),
    );
    const turn = new VolumeTurn(this.#options.view, request);
    const source = await untilPrepared(preparation, turn, this.#times, signal);
    if (request.isSingle === true) refuseSecond(target); // another may have come meanwhile
    bind(source, target, request.readOnly);
    preparation.clock.lap("bind_ms");
    const fields = { volume: request.volumeId, pod: request.workloadUid };
    this.#options.log.info({ ...fields, ...preparation.clock.laps() }, "volume published");
  }

  async unpublish(target: Target): Promise<void> {
    using _lock = this.#locks.hold(target.path);
    this.#preparations.cancel(target.path);
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
        log.debug(
          { mountpoint: pod.name, err: error },
          "failed to finish a replaced Mountpoint Pod",
        );
      },
    );
    void dismissed.then(() => this.#dismissing.delete(pod.uid));
  }

  /**
   * The target as mountinfo shows it. What a mount of ours is bound there is left as it is, and its
   * keys are made fresh. A mount of the driver's first version serves a workload until that is
   * recreated: the controller assigns no Mountpoint Pod to it. Where one is assigned all the same,
   * ours is put on top, and who still uses the old one keeps it. Whatever else is there was left by
   * a crash, or has lost its engine for good: it stays until another takes its place, since a
   * container that restarts on a bare directory would write to the node's disk.
   */
  async #isPublished(request: PublishRequest): Promise<boolean> {
    const { target, volumeId } = request;
    const entry = mountAt(readMounts(), target.path);
    if (entry === undefined) return false;
    if (isFirstVersion(entry)) return !this.#options.view.isAssigned(claimantOf(request));
    if (!(await this.#options.sources.isDead(entry.device))) {
      this.#refresh(request, entry);
      return true;
    }
    this.#options.log.warn({ volume: volumeId, pod: target.podUid }, "dead mount to be replaced");
    return false;
  }

  /** In the background: the kubelet asks every minute or so, and waits for no mounter. */
  #refresh(request: PublishRequest, { device }: MountEntry): void {
    const { sources, log } = this.#options;
    const failed = (error: unknown) => {
      log.warn({ volume: request.volumeId, err: error }, "failed to refresh credentials");
    };
    try {
      const plan = planMount(request.mountOptions, "");
      void sources.rekey(device, keysFor(request, plan, this.#options)).catch(failed);
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
  async #source(
    request: PublishRequest,
    preparation: Preparation,
    signal: AbortSignal,
  ): Promise<Source> {
    const { view } = this.#options;
    const claimant = claimantOf(request);
    const cause = () => view.attachmentsProblem() ?? view.heldBackWhy(claimant);
    using _told = view.onAttachmentChange(() => preparation.changed());
    for (;;) {
      preparation.step = { waitsFor: WAITS_FOR_ATTACHMENT, isAssigned: false, cause };
      const assignment = await view.untilAssigned(claimant, signal);
      preparation.clock.lap("attachment_ms");
      const left = new AbortController();
      const moved = view.untilMoved(claimant, assignment.pod, left.signal);
      const serving = this.#served(request, assignment, preparation, signal, left.signal);
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
    preparation: Preparation,
    signal: AbortSignal,
    moved: AbortSignal,
  ): Promise<Source> {
    const { clock } = preparation;
    const name = assignment.pod;
    const served = new AbortController();
    const either = AbortSignal.any([signal, moved]);
    let problem: string | undefined;
    const told = (now: string | undefined) => {
      problem = now;
      preparation.changed();
    };
    const waitFor = (what: string) => {
      const waitsFor = `Mountpoint Pod ${name} ${what}`;
      preparation.step = { waitsFor, isAssigned: true, cause: () => problem };
    };
    try {
      waitFor("to be scheduled on this node");
      void this.#followProblem(name, told, AbortSignal.any([either, served.signal]));
      const pod = await this.#options.view.untilScheduled(name, either);
      clock.lap("scheduled_ms");
      waitFor("to serve");
      const serving = this.#ensure(request, assignment, pod, moved, clock);
      const source = await within(serving, either, (reason) => reason as Error);
      clock.lap("source_ms");
      return source;
    } finally {
      served.abort();
    }
  }

  /** The API server is asked late: most Mountpoint Pods serve before a publish needs a cause. */
  async #followProblem(
    pod: string,
    told: (problem: string | undefined) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const waited = delay(this.#times.causeAfterMs, true, { signal, ref: false });
    if (await waited.catch(() => false)) {
      await this.#options.view.followProblem(pod, told, signal);
    }
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
      ...envWarnings(context.env ?? {}, this.#options.policy ?? STRICT),
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

function claimantOf({ workloadUid, volumeId, target }: PublishRequest): Claimant {
  return { workloadUid, volumeId, pvName: target.pvName };
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
  takeOffDead(target);
  makeTarget(target);
  bindMount(source.dir, target.path, { readOnly });
}

/** All layers that a crash or a lost engine has left; a mount of the first version stays below. */
function takeOffDead({ path }: Target): void {
  for (;;) {
    const entry = mountAt(readMounts(), path);
    if (entry === undefined || isFirstVersion(entry)) return;
    unmount(path, { detach: true });
  }
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

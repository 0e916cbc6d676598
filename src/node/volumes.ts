import { mkdirSync, rmdirSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { KeyedLock } from "../base/keyed-lock.ts";
import type { Log } from "../base/log.ts";
import { within } from "../base/within.ts";
import type { MountRequest } from "../handover/messages.ts";
import { bindMount } from "../sys/bind-mount.ts";
import { FUSE_FILESYSTEM_TYPE, unmount } from "../sys/fuse-mount.ts";
import { mountAt, readMounts } from "../sys/mount-info.ts";
import { planMount } from "../volume/mount-options.ts";
import type { MountPlan } from "../volume/mount-options.ts";
import type { Assignment, ClusterView, MountpointPod } from "./cluster-view.ts";
import { credentialsFor } from "./driver-credentials.ts";
import type { PublishRequest, Target } from "./publish-request.ts";
import type { Source, SourceMounts, SourceTimes } from "./source-mounts.ts";

export interface VolumesOptions {
  readonly view: Pick<ClusterView, "untilAssigned" | "untilScheduled" | "pods">;
  readonly sources: SourceMounts;
  /** Holds the driver's credentials, endpoint and region. */
  readonly env: Environment;
  readonly userAgent: string;
  readonly log: Log;
}

/** Publish and unpublish: what the kubelet asks for, on this node. */
export class Volumes {
  readonly #options: VolumesOptions;
  readonly #locks = new KeyedLock();
  /** Mounts that are being taken down: what changes meanwhile is looked at afterwards, once. */
  readonly #settling = new Map<string, "under way" | "look again">();
  /** Mountpoint Pods that have finished, though the API server may still call them running. */
  #finished = new Set<string>();

  constructor(options: VolumesOptions) {
    this.#options = options;
  }

  async publish(request: PublishRequest, signal: AbortSignal): Promise<void> {
    const { target } = request;
    using _lock = this.#locks.hold(target.path);
    if (isPublished(target)) return;
    const clock = new StopWatch();
    const assignment = await this.#assigned(request, signal);
    clock.lap("attachment_ms");
    const scheduled = this.#options.view.untilScheduled(assignment.pod, signal);
    const pod = await within(
      scheduled,
      signal,
      late(`Mountpoint Pod ${assignment.pod} to be here`),
    );
    clock.lap("scheduled_ms");
    const serving = this.#source(request, assignment, pod, clock);
    const source = await within(serving, signal, late(`Mountpoint Pod ${pod.name} to serve`));
    clock.lap("source_ms");
    bind(source, target, request.readOnly);
    clock.lap("bind_ms");
    const fields = { volume: request.volumeId, pod: request.workloadUid, mountpoint: pod.name };
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
    const ids = new Set([...sources.ids(), ...pods.map((pod) => pod.mountId)]);
    for (const id of ids) {
      const serving = pods.filter((pod) => pod.mountId === id);
      this.#settle(id, serving);
    }
  }

  #settle(mountId: string, pods: readonly MountpointPod[]): void {
    const { sources, log } = this.#options;
    const serving = pods.find((pod) => !pod.needsUnmount && !isOver(pod));
    if (serving !== undefined) return;
    const pod = pods.find((one) => !isOver(one) && !this.#finished.has(one.uid));
    if (pod === undefined && !sources.ids().includes(mountId)) return;
    const earlier = this.#settling.get(mountId);
    this.#settling.set(mountId, earlier === undefined ? "under way" : "look again");
    if (earlier !== undefined) return;
    const settled = sources.remove(mountId, pod).then(
      (done) => done && pod !== undefined && this.#finished.add(pod.uid),
      (error: unknown) => {
        const fields = { mount: mountId, mountpoint: pod?.name, err: error };
        log.warn(fields, "a mount was not taken down in order");
      },
    );
    void settled.then(() => {
      const next = this.#settling.get(mountId);
      this.#settling.delete(mountId);
      if (next === "look again") this.settleAll();
    });
  }

  #assigned(request: PublishRequest, signal: AbortSignal): Promise<Assignment> {
    const { workloadUid, volumeId, target } = request;
    const assigned = this.#options.view.untilAssigned(workloadUid, volumeId, target.pvName, signal);
    return within(assigned, signal, late("MountpointS3PodAttachment: is the controller running?"));
  }

  async #source(
    request: PublishRequest,
    assignment: Assignment,
    pod: MountpointPod,
    clock: StopWatch,
  ): Promise<Source> {
    const plan = planMount(request.mountOptions, assignment.spec.workloadFSGroup);
    for (const warning of plan.warnings) {
      this.#options.log.warn({ volume: request.volumeId, warning }, "mount option left out");
    }
    const took = ({ mounterMs, engineMs }: SourceTimes) => {
      clock.set("mounter_ms", mounterMs);
      clock.set("engine_ms", engineMs);
    };
    const mount = this.#mountRequest(request, plan);
    return this.#options.sources.ensure(pod, mount, plan.readOnly, took);
  }

  #mountRequest({ context, secrets }: PublishRequest, plan: MountPlan): MountRequest {
    const { env, userAgent } = this.#options;
    const args = [...plan.args, `--user-agent-prefix=${userAgent}`];
    if (env["AWS_ENDPOINT_URL"]) args.push(`--endpoint-url=${env["AWS_ENDPOINT_URL"]}`);
    const region = context.region ?? env["AWS_REGION"];
    const hasRegion = plan.args.some((arg) => arg.startsWith("--region="));
    if (!hasRegion && region) args.push(`--region=${region}`);
    if (context.prefix !== "") args.push(prefixArg(context.prefix, plan));
    const unsigned = plan.args.includes("--no-sign-request");
    const credentials = unsigned
      ? null
      : credentialsFor(context.authenticationSource, secrets, env);
    return { do: "mount", bucket: context.bucketName, args, env: plan.env, credentials };
  }
}

/** The volume's border. An option must not move it: beside it are the volumes of others. */
function prefixArg(prefix: string, { args }: MountPlan): string {
  if (!args.some((arg) => /^--prefix(=|$)/.test(arg))) return `--prefix=${prefix}`;
  throw new Failure(
    "invalid",
    `mountOptions: prefix can't be chosen: the volume itself is a prefix, ${prefix}`,
  );
}

function isOver(pod: MountpointPod): boolean {
  return pod.phase === "Succeeded" || pod.phase === "Failed";
}

function isPublished(target: Target): boolean {
  return mountAt(readMounts(), target.path)?.type === FUSE_FILESYSTEM_TYPE;
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

/** Words for a deadline, as users of such drivers know them. */
function late(what: string): (reason: unknown) => Failure {
  return (reason) => new Failure("timeout", `Timed out waiting for ${what}`, reason);
}

/** The parts of one publish, for its log line. */
class StopWatch {
  readonly #startedMs = performance.now();
  readonly #laps: Record<string, number> = {};
  #lastMs = this.#startedMs;

  lap(name: string): void {
    const nowMs = performance.now();
    this.set(name, nowMs - this.#lastMs);
    this.#lastMs = nowMs;
  }

  set(name: string, ms: number): void {
    this.#laps[name] = Math.round(ms);
  }

  laps(): Record<string, number> {
    return { ...this.#laps, total_ms: Math.round(performance.now() - this.#startedMs) };
  }
}

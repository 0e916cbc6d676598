import { createLineLog } from "../../src/base/line-log.ts";
import { loadKubeAccess } from "../../src/kube/kube-access.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { isFinished } from "../../src/kube/pod-phase.ts";
import { EVENTS, PODS, PVCS, PVS } from "../../src/kube/resource.ts";
import type { KubeEvent, KubeObject, PersistentVolumeClaim, Pod } from "../../src/kube/resource.ts";
import type { Resource } from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { ATTACHMENTS } from "../../src/volume/attachment.ts";
import type { MountpointS3PodAttachment } from "../../src/volume/attachment.ts";
import type { Cluster } from "./cluster.ts";

const WITHIN_MS = 60_000;
export const MOUNTPOINT_NAMESPACE = "mount-s3";

type Following<T extends KubeObject> = WatchedList<T, T>;

/**
 * What the API server tells of a cluster, as it comes: who waits for something waits for an event,
 * and its time is when it became known, not when somebody looked.
 */
export class ClusterWatch implements AsyncDisposable {
  readonly client: KubeClient;
  readonly pods: Following<Pod>;
  readonly claims: Following<PersistentVolumeClaim>;
  readonly attachments: Following<MountpointS3PodAttachment>;
  readonly #ending = new AbortController();
  readonly #following: Promise<void>[] = [];
  /** From the first question on: there are several for each pod, and many never ask. */
  #events: Following<KubeEvent> | undefined;

  private constructor(client: KubeClient) {
    this.client = client;
    this.pods = this.#follow(PODS);
    this.claims = this.#follow(PVCS);
    this.attachments = this.#follow(ATTACHMENTS);
  }

  /** With the driver's chart installed: its kind is one of those that are followed. */
  static async start(cluster: Cluster): Promise<ClusterWatch> {
    const watch = new ClusterWatch(new KubeClient(await loadKubeAccess(cluster.kubeconfig)));
    const { pods, claims, attachments } = watch;
    await Promise.all([pods, claims, attachments].map((list) => list.synced));
    return watch;
  }

  pod(name: string, namespace = "default"): Pod | undefined {
    return this.pods.get(`${namespace}/${name}`);
  }

  mountpointPods(): Pod[] {
    const all = [...this.pods.values()];
    return all.filter(({ metadata }) => metadata?.namespace === MOUNTPOINT_NAMESPACE);
  }

  async untilReady(name: string, withinMs = WITHIN_MS): Promise<void> {
    await this.until(this.pods, `pod ${name} is Ready`, () => isReady(this.pod(name)), withinMs);
  }

  async untilGone(name: string, withinMs = WITHIN_MS): Promise<void> {
    const isGone = () => this.pod(name) === undefined;
    await this.until(this.pods, `pod ${name} is gone`, isGone, withinMs);
  }

  async untilBound(claim: string): Promise<void> {
    const isBound = () => this.claims.get(`default/${claim}`)?.status?.phase === "Bound";
    await this.until(this.claims, `claim ${claim} is bound`, isBound);
  }

  /** No Mountpoint Pod and no attachment: the API server's half of "nothing is left". */
  async untilAllLetGo(withinMs = WITHIN_MS): Promise<void> {
    const noPod = () => this.mountpointPods().length === 0;
    const noAttachment = () => [...this.attachments.values()].length === 0;
    await Promise.all([
      this.until(this.pods, "no Mountpoint Pod is left", noPod, withinMs),
      this.until(this.attachments, "no attachment is left", noAttachment, withinMs),
    ]);
  }

  /** The first event about a pod whose words match, past or to come. */
  async untilTold(pod: string, words: RegExp, withinMs = WITHIN_MS): Promise<string> {
    this.#events ??= this.#follow(EVENTS);
    const events = this.#events;
    const notes = () => {
      const about = [...events.values()].filter(({ regarding }) => regarding?.name === pod);
      return about.map(({ note = "" }) => note);
    };
    const told = () => notes().some((note) => words.test(note));
    const what = `an event of ${pod} says ${words}`;
    await this.until(events, what, told, withinMs).catch((error: unknown) => {
      throw new Error(
        `waited ${withinMs} ms in vain until ${what}; they say:\n  ${notes().join("\n  ")}`,
        { cause: error },
      );
    });
    return notes().find((note) => words.test(note)) ?? "";
  }

  /** Looks after each change of a list; says in words what did not come. */
  async until<T extends KubeObject>(
    list: Following<T>,
    what: string,
    isSo: () => boolean,
    withinMs = WITHIN_MS,
  ): Promise<void> {
    const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(withinMs)]);
    const look = () => (isSo() ? true : undefined);
    await list.until(look, signal).catch((error: unknown) => {
      throw new Error(`waited ${withinMs} ms in vain until ${what}`, { cause: error });
    });
  }

  async create<T extends KubeObject>(resource: Resource<T>, object: object): Promise<T> {
    return this.client.create(resource, object as T, AbortSignal.timeout(WITHIN_MS));
  }

  async deletePod(name: string): Promise<void> {
    const place = { namespace: "default", name };
    await this.client.delete(PODS, place, {}, AbortSignal.timeout(WITHIN_MS));
  }

  /** A static volume and its claim, which have one name. */
  async deleteVolume(name: string): Promise<void> {
    const within = AbortSignal.timeout(WITHIN_MS);
    await this.client.delete(PVCS, { namespace: "default", name }, {}, within);
    await this.client.delete(PVS, { name }, {}, within);
  }

  #follow<T extends KubeObject>(resource: Resource<T>): Following<T> {
    const log = createLineLog("warn", { role: "watch" });
    const list = new WatchedList({
      client: this.client,
      log,
      resource,
      project: (raw: T) => raw,
    });
    this.#following.push(list.start(this.#ending.signal));
    return list;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.#following);
    this.client[Symbol.dispose]();
  }
}

export function isReady(pod: Pod | undefined): boolean {
  const conditions = pod?.status?.conditions ?? [];
  return conditions.some(({ type, status }) => type === "Ready" && status === "True");
}

/** Its containers will not run again. */
export function hasEnded(pod: Pod | undefined): boolean {
  return isFinished(pod?.status?.phase);
}

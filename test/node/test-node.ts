import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import { createLog } from "../../src/base/pino-log.ts";
import type { MountpointPod } from "../../src/node/cluster-view.ts";
import type { MountNews } from "../../src/node/kept-mount.ts";
import { SourceMounts } from "../../src/node/source-mounts.ts";
import type { SourceMountsOptions } from "../../src/node/source-mounts.ts";
import { bindMount } from "../../src/sys/bind-mount.ts";
import { unmount } from "../../src/sys/fuse-mount.ts";
import { readMounts } from "../../src/sys/mount-info.ts";
import { MounterProcess } from "./mounter-process.ts";
import { podCgroup } from "./pod-cgroup.ts";
import type { PodCgroup } from "./pod-cgroup.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const HOSTILE = join(import.meta.dirname, "hostile-mounter.ts");
const WITHIN_MS = { mountWithinMs: 15_000, finishWithinMs: 15_000 };
type Limits = Pick<
  SourceMountsOptions,
  "mountWithinMs" | "finishWithinMs" | "giveUpAfterMs" | "giveUpTerminatingAfterMs" | "driverKeys"
>;

const log = createLog("error", {});
log.level = "silent";
export const silentLog = log;

/** The cluster as this node sees it: what a test says. */
export class TestView {
  readonly #listeners = new Set<() => void>();
  #pods: MountpointPod[] = [];
  /** Workloads that are being deleted, by UID. All others are there. */
  readonly leaving = new Set<string>();
  /** Workloads whose containers have ended, by UID. */
  readonly finished = new Set<string>();
  /** Why the controller assigns none. */
  heldBack: string | undefined;
  /** Why Mountpoint Pods do not run. */
  problem: string | undefined;

  pods(): MountpointPod[] {
    return this.#pods;
  }

  pod(uid: string) {
    const leaving = this.leaving.has(uid);
    const finished = this.finished.has(uid);
    return { namespace: "default", name: uid, uid, leaving, finished, mountpoint: undefined };
  }

  onPodFinished(listener: (uid: string) => void): Disposable {
    return this.onPodChange(() => this.finished.forEach((uid) => listener(uid)));
  }

  onPodChange(listener: () => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  onMountpointPodChange(listener: () => void): Disposable {
    return this.onPodChange(listener);
  }

  /** Now there are these, and no others. */
  set(...pods: readonly MountpointPod[]): void {
    this.#pods = [...pods];
    this.changed();
  }

  changed(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** A kubelet's directory without a kubelet, and the node service's mounts in it. */
export class TestNode implements AsyncDisposable {
  readonly kubeletPath: string;
  readonly mountsDir: string;
  readonly view = new TestView();
  readonly news: MountNews[] = [];
  /** The node service's: of its present life. */
  sources: SourceMounts;
  readonly #limits: Limits;
  readonly #owned: AsyncDisposableStack;

  private constructor(dir: string, owned: AsyncDisposableStack, limits: Limits) {
    this.kubeletPath = join(dir, "kubelet");
    this.mountsDir = join(this.kubeletPath, "plugins/mnt");
    mkdirSync(join(this.kubeletPath, "pods"), { recursive: true });
    this.#limits = limits;
    this.sources = this.#newSources();
    this.#owned = owned;
  }

  static async start(limits: Limits = {}): Promise<TestNode> {
    const owned = new AsyncDisposableStack();
    const dir = owned.use(await temporaryDirectory());
    return new TestNode(dir.path, owned, { ...WITHIN_MS, ...limits });
  }

  /** A Mountpoint Pod's directory and cgroup, with nothing in it. */
  pod(name = "mp-1", change: Partial<MountpointPod> = {}): TestPod {
    const pod = new TestPod(this.kubeletPath, name, change);
    this.#owned.use(pod);
    this.view.set(...this.view.pods(), pod.pod);
    return pod;
  }

  /** The node service after a restart: what it knew is gone, what it made is there. */
  reborn(): SourceMounts {
    this.sources[Symbol.dispose]();
    this.sources = this.#newSources();
    return this.sources;
  }

  #newSources(): SourceMounts {
    const { kubeletPath, mountsDir, view } = this;
    const onNews = (news: MountNews) => void this.news.push(news);
    return new SourceMounts({ kubeletPath, mountsDir, view, onNews, log, ...this.#limits });
  }

  /** What is mounted below the kubelet's directory. */
  mounts(): string[] {
    const below = readMounts().filter(({ mountPoint }) => mountPoint.startsWith(this.kubeletPath));
    return below.map(({ mountPoint }) => mountPoint.slice(this.kubeletPath.length + 1));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.sources[Symbol.dispose]();
    await this.#owned.disposeAsync();
  }
}

export class TestPod implements AsyncDisposable {
  readonly pod: MountpointPod;
  readonly commDir: string;
  readonly #cgroup: PodCgroup;
  readonly #owned = new AsyncDisposableStack();

  constructor(kubeletPath: string, name: string, change: Partial<MountpointPod>) {
    const uid = randomUUID();
    const state = { generation: 0, phase: "Running", needsUnmount: false, leaving: false };
    this.pod = { name, uid, mountId: name, attachment: "s3pa-1", ...state, ...change };
    this.commDir = join(kubeletPath, "pods", uid, "volumes/kubernetes.io~empty-dir/comm");
    mkdirSync(this.commDir, { recursive: true });
    this.#cgroup = this.#owned.use(podCgroup(uid));
  }

  /** Starts the pod's container: the real program. */
  run(): MounterProcess {
    return this.#start();
  }

  runHostile(mode: string): MounterProcess {
    return this.#start([HOSTILE, mode]);
  }

  /** The same with other words for Node; the directory comes after them. */
  runWith(words: readonly string[]): MounterProcess {
    return this.#start(words);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }

  #start(words?: readonly string[]): MounterProcess {
    const cgroup = this.#cgroup.procs;
    const options = words === undefined ? { cgroup } : { cgroup, words };
    return this.#owned.use(new MounterProcess(this.commDir, options));
  }
}

/** A workload's bind, as publish makes it. */
export function bindFor(node: TestNode, uid: string, sourceDir: string) {
  const target = join(node.kubeletPath, "pods", uid, "volumes/kubernetes.io~csi/pv/mount");
  mkdirSync(target, { recursive: true });
  bindMount(sourceDir, target, { readOnly: false });
  return { target, [Symbol.dispose]: () => unmount(target, { detach: true }) };
}

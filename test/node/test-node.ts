import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import { createLog } from "../../src/base/pino-log.ts";
import type { MountpointPod } from "../../src/node/cluster-view.ts";
import { SourceMounts } from "../../src/node/source-mounts.ts";
import { readMounts } from "../../src/sys/mount-info.ts";
import { MounterProcess } from "./mounter-process.ts";
import { podCgroup } from "./pod-cgroup.ts";
import type { PodCgroup } from "./pod-cgroup.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const HOSTILE = join(import.meta.dirname, "hostile-mounter.ts");
const WITHIN_MS = { mountWithinMs: 15_000, finishWithinMs: 15_000 };

const log = createLog("error", {});
log.level = "silent";
export const silentLog = log;

/** A kubelet's directory without a kubelet, and the node service's mounts in it. */
export class TestNode implements AsyncDisposable {
  readonly kubeletPath: string;
  readonly mountsDir: string;
  readonly sources: SourceMounts;
  readonly #owned: AsyncDisposableStack;

  private constructor(dir: string, owned: AsyncDisposableStack, limits: typeof WITHIN_MS) {
    this.kubeletPath = join(dir, "kubelet");
    this.mountsDir = join(this.kubeletPath, "plugins/mnt");
    mkdirSync(join(this.kubeletPath, "pods"), { recursive: true });
    const { kubeletPath, mountsDir } = this;
    this.sources = new SourceMounts({ kubeletPath, mountsDir, log, ...limits });
    this.#owned = owned;
  }

  static async start(limits = WITHIN_MS): Promise<TestNode> {
    const owned = new AsyncDisposableStack();
    const dir = owned.use(await temporaryDirectory());
    return new TestNode(dir.path, owned, limits);
  }

  /** A Mountpoint Pod's directory and cgroup, with nothing in it. */
  pod(name = "mp-1"): TestPod {
    const pod = new TestPod(this.kubeletPath, name);
    this.#owned.use(pod);
    return pod;
  }

  /** The node service after a restart: what it knew is gone, what it made is there. */
  reborn(): { readonly sources: SourceMounts } {
    const { kubeletPath, mountsDir } = this;
    return { sources: new SourceMounts({ kubeletPath, mountsDir, log, ...WITHIN_MS }) };
  }

  /** What is mounted below the kubelet's directory. */
  mounts(): string[] {
    const below = readMounts().filter(({ mountPoint }) => mountPoint.startsWith(this.kubeletPath));
    return below.map(({ mountPoint }) => mountPoint.slice(this.kubeletPath.length + 1));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }
}

export class TestPod implements AsyncDisposable {
  readonly pod: MountpointPod;
  readonly commDir: string;
  readonly #cgroup: PodCgroup;
  readonly #owned = new AsyncDisposableStack();

  constructor(kubeletPath: string, name: string) {
    const uid = randomUUID();
    const state = { phase: "Running", needsUnmount: false, leaving: false };
    this.pod = { name, uid, mountId: name, ...state };
    this.commDir = join(kubeletPath, "pods", uid, "volumes/kubernetes.io~empty-dir/comm");
    mkdirSync(this.commDir, { recursive: true });
    this.#cgroup = this.#owned.use(podCgroup(uid));
  }

  /** Starts the pod's container: the real program. */
  run(): MounterProcess {
    return this.#start(new MounterProcess(this.commDir));
  }

  runHostile(mode: string): MounterProcess {
    return this.#start(new MounterProcess(this.commDir, [HOSTILE, mode]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }

  #start(mounter: MounterProcess): MounterProcess {
    this.#owned.use(mounter);
    this.#cgroup.take(mounter.pid);
    return mounter;
  }
}

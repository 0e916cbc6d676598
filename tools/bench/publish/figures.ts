import { DEFAULT_NODE, TUNED_NODE } from "../../stack/cluster-config.ts";
import type { NodeSetup } from "../../stack/cluster-config.ts";
import { serverVersion } from "../engine/arena.ts";
import type { Figures } from "../part.ts";
import { memoryOf } from "./pod-memory.ts";
import { publishedOf } from "./published.ts";
import type { Published } from "./published.ts";
import { figuresOf, tunedFigures } from "./samples.ts";
import type { Samples } from "./samples.ts";
import { Stage, containerOf } from "./stage.ts";
import type { Departure, Workload } from "./stage.ts";

const BURST = 20;
const SHARED_PER_ROUND = 5;

/**
 * Publishes and unpublishes again and again, as users do it: with pods. First on a node as most
 * clusters have it, then, with half of the rounds, on the tuned one of the test cluster.
 */
export async function publishFigures(
  rounds: number,
  progress: (text: string) => void,
): Promise<Figures> {
  const byDefault = await samplesOf(DEFAULT_NODE, rounds, (text) => progress(`default ${text}`));
  const tunedRounds = Math.ceil(rounds / 2);
  const tuned = await samplesOf(TUNED_NODE, tunedRounds, (text) => progress(`tuned ${text}`));
  return {
    s3_server_version: serverVersion(),
    ...figuresOf(byDefault),
    ...tunedFigures(figuresOf(tuned)),
  };
}

async function samplesOf(
  setup: NodeSetup,
  rounds: number,
  progress: (text: string) => void,
): Promise<Samples> {
  progress("node: cluster and driver");
  await using stage = await Stage.start(setup);
  const run = new PublishRun(stage);
  await run.makeIdle();
  for (let round = 1; round <= rounds; round += 1) {
    progress(`node: round ${round} of ${rounds}: one pod, two pods, none`);
    await run.comeAndGo(round);
  }
  const memory = await memoryOf(containerOf(stage.mountpointPodOf("idle"))); // rounds long idle
  progress("node: pods that share a volume");
  await run.share(rounds * SHARED_PER_ROUND);
  await stage.endContainerTimes();
  for (let round = 1; round <= rounds; round += 1) {
    progress(`node: round ${round} of ${rounds}: ${BURST} pods at once`);
    await run.burst(round);
  }
  return { ...(await run.samples()), memory };
}

class PublishRun {
  readonly #stage: Stage;
  readonly #floorMs: number[] = [];
  readonly #firstReadyMs: number[] = [];
  readonly #secondReadyMs: number[] = [];
  readonly #burstFloorMs: number[] = [];
  readonly #doubleFloorMs: number[] = [];
  readonly #burstVolumesMs: number[] = [];
  readonly #burstOneMs: number[] = [];
  readonly #departures: Departure[] = [];
  /** UIDs of first workloads, with the time when their Mountpoint Pod's container started. */
  readonly #firsts = new Map<string, number>();
  readonly #shared = new Set<string>();
  readonly #bursts: Set<string>[] = [];

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  /** One volume that stays: what all have in common is there before the first figure. */
  async makeIdle(): Promise<void> {
    await this.#stage.volume("idle");
    await this.#stage.untilAllReady([{ name: "idle", claim: "idle" }]);
  }

  async comeAndGo(round: number): Promise<void> {
    const stage = this.#stage;
    const [floor, first, second] = [`floor-${round}`, `first-${round}`, `second-${round}`];
    const claim = `volume-${round}`;
    this.#floorMs.push(await stage.untilAllReady([{ name: floor }]));
    await stage.remove(floor);
    await stage.volume(claim);
    this.#firstReadyMs.push(await stage.untilAllReady([{ name: first, claim }]));
    const mountpoint = containerOf(stage.mountpointPodOf(first));
    this.#firsts.set(this.#uidOf(first), stage.containers.startedMs(mountpoint));
    this.#secondReadyMs.push(await stage.untilAllReady([{ name: second, claim }]));
    this.#shared.add(this.#uidOf(second));
    await stage.remove(first);
    this.#departures.push(await stage.removeLast(second));
  }

  /** One after another: what each of them waits for is nothing but its own publish. */
  async share(count: number): Promise<void> {
    const stage = this.#stage;
    await stage.volume("shared");
    const names = Array.from({ length: count }, (_, i) => `shared-${i}`);
    await stage.untilAllReady([{ name: "shared", claim: "shared" }]);
    for (const name of names) {
      await stage.untilAllReady([{ name, claim: "shared" }]);
      this.#shared.add(this.#uidOf(name));
    }
    await stage.remove("shared", ...names);
  }

  async burst(round: number): Promise<void> {
    const stage = this.#stage;
    const numbers = Array.from({ length: BURST }, (_, i) => i);
    this.#burstFloorMs.push(await this.#plain(`plain-${round}`, BURST));
    this.#doubleFloorMs.push(await this.#plain(`double-${round}`, 2 * BURST));
    this.#burstVolumesMs.push(await this.#burstOfVolumes(round));
    const claim = `one-${round}`;
    await stage.volume(claim);
    const together: Workload[] = numbers.map((i) => ({ name: `one-${round}-${i}`, claim }));
    this.#burstOneMs.push(await this.#allCome(together));
    await this.#allGo(together.map(({ name }) => name));
    await stage.removeVolumes(claim);
  }

  /** Pods on volumes of their own come and go; how long until the last was Ready. */
  async #burstOfVolumes(round: number): Promise<number> {
    const stage = this.#stage;
    const names = Array.from({ length: BURST }, (_, i) => `burst-${round}-${i}`);
    await Promise.all(names.map((name) => stage.volume(name)));
    const readyMs = await this.#allCome(names.map((name) => ({ name, claim: name })));
    this.#bursts.push(new Set(names.map((name) => this.#uidOf(name))));
    await this.#allGo(names);
    await stage.removeVolumes(...names);
    return readyMs;
  }

  async samples(): Promise<Omit<Samples, "memory">> {
    const published = await publishedOf(this.#stage.cluster);
    const of = (uids: ReadonlySet<string>): Published[] =>
      published.filter(({ workloadUid }) => uids.has(workloadUid));
    const first = of(new Set(this.#firsts.keys())).map((it) => ({
      ...it,
      containerStartedMs: this.#firsts.get(it.workloadUid) ?? NaN,
    }));
    return {
      floorMs: this.#floorMs,
      firstReadyMs: this.#firstReadyMs,
      secondReadyMs: this.#secondReadyMs,
      burstFloorMs: this.#burstFloorMs,
      doubleFloorMs: this.#doubleFloorMs,
      burstVolumesMs: this.#burstVolumesMs,
      burstOneMs: this.#burstOneMs,
      departures: this.#departures,
      first,
      shared: of(this.#shared),
      burstPublished: this.#bursts.map(of),
    };
  }

  /** Pods without a volume come and go; how long until the last was Ready. */
  async #plain(name: string, count: number): Promise<number> {
    const pods = Array.from({ length: count }, (_, i) => ({ name: `${name}-${i}` }));
    const readyMs = await this.#allCome(pods);
    await this.#stage.remove(...pods.map((pod) => pod.name));
    return readyMs;
  }

  /** Each burst finds the node as the first one did. */
  async #allCome(pods: readonly Workload[]): Promise<number> {
    await this.#stage.quiet();
    return this.#stage.untilAllReady(pods);
  }

  /** All but the idle one. */
  async #allGo(names: readonly string[]): Promise<void> {
    const { watch } = this.#stage;
    await this.#stage.remove(...names);
    await watch.until(watch.pods, "one Mountpoint Pod is left", () => {
      return watch.mountpointPods().length === 1;
    });
  }

  #uidOf(pod: string): string {
    return this.#stage.watch.pod(pod)?.metadata?.uid ?? "";
  }
}

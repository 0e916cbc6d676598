import { pino } from "pino";
import { Failure } from "../../src/base/failure.ts";
import type { Volume } from "../../src/reconciler/facts.ts";
import { Reconciler } from "../../src/reconciler/reconciler.ts";
import { World } from "../../src/reconciler/world.ts";
import type { Change, ModelApi } from "./model-api.ts";

export const DRIVER_VERSION = "1.0.0";
export type Fate = "goes well" | "is lost" | "answer is lost" | "kills us";

interface Call {
  readonly end: (fate: Fate) => void;
}

/** One controller: its own lagging picture, its work in progress, held at every call. */
export class Replica {
  readonly #api: ModelApi;
  readonly #volumes: readonly Volume[];
  #world!: World;
  #reconciler!: Reconciler;
  #dirty = new Set<string>();
  #working = new Map<string, Promise<void>>();
  #calls: Call[] = [];
  #cursor: Record<Change["kind"], number> = { workload: 0, pod: 0, attachment: 0, node: 0 };
  #life = 0;

  constructor(api: ModelApi, volumes: readonly Volume[]) {
    this.#api = api;
    this.#volumes = volumes;
    this.restart();
  }

  /** Forgets everything, lists anew. Calls that were on their way never return. */
  restart(): void {
    this.#life += 1;
    const life = this.#life;
    this.#calls = [];
    this.#working = new Map();
    this.#dirty = new Set();
    this.#world = new World(() => undefined);
    const gate = <T>(call: () => T) => this.#hold(call, life);
    this.#reconciler = new Reconciler({
      world: this.#world,
      cluster: this.#api.cluster(gate, DRIVER_VERSION),
      driverVersion: DRIVER_VERSION,
      log: pino({ level: "silent" }),
      nowMs: () => this.#api.nowMs,
      tell: () => Promise.resolve(),
    });
    for (const volume of this.#volumes) {
      const [namespace = "", name = ""] = volume.claimKey.split("/");
      const claim = { namespace, name, uid: volume.claimUid, volumeName: volume.name };
      this.#world.claimChanged(volume.claimKey, claim);
      this.#world.volumeChanged(volume.name, volume, undefined);
    }
    const end = this.#api.changes.length;
    this.#cursor = { workload: end, pod: end, attachment: end, node: end };
    for (const change of this.#api.listed()) this.#learn(change);
  }

  /** The next event of one watch; the watches run behind each other as they like. */
  deliver(kind: Change["kind"]): boolean {
    const { changes } = this.#api;
    while (this.#cursor[kind] < changes.length) {
      const change = changes[this.#cursor[kind]];
      this.#cursor[kind] += 1;
      if (change?.kind !== kind) continue;
      this.#learn(change);
      return true;
    }
    return false;
  }

  sweep(): void {
    for (const name of this.#world.names()) this.#dirty.add(name);
  }

  /** Begins work on a name that waits, if one does. */
  work(): boolean {
    for (const name of this.#dirty) {
      if (this.#working.has(name)) continue;
      this.#dirty.delete(name);
      this.#working.set(name, this.#run(name, this.#life));
      return true;
    }
    return false;
  }

  /** Lets one of the calls on their way end. */
  endCall(choice: number, fate: Fate): boolean {
    const [call] = this.#calls.splice(choice % Math.max(1, this.#calls.length), 1);
    call?.end(fate);
    return call !== undefined;
  }

  async #run(name: string, life: number): Promise<void> {
    try {
      await this.#reconciler.reconcile(name, AbortSignal.timeout(60_000));
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (life === this.#life) this.#dirty.add(name);
    }
    if (life === this.#life) this.#working.delete(name);
  }

  #hold<T>(call: () => T, life: number): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    if (life !== this.#life) return promise; // a ghost of a life before: its world is gone
    const end = (fate: Fate) => {
      if (fate === "is lost") return reject(new Failure("remote", "lost"));
      let result: T;
      try {
        result = call();
      } catch (error) {
        return reject(error);
      }
      if (fate === "goes well") return resolve(result);
      if (fate === "answer is lost") return reject(new Failure("remote", "lost"));
      return this.restart();
    };
    this.#calls.push({ end });
    return promise;
  }

  #learn({ tell }: Change): void {
    for (const name of tell(this.#world)) this.#dirty.add(name);
  }
}

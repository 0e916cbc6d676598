import { pino } from "pino";
import { Failure } from "../../src/base/failure.ts";
import type { Claim } from "../../src/reconciler/facts.ts";
import { HeadroomKeeper } from "../../src/reconciler/headroom-keeper.ts";
import { listenersOf } from "../../src/reconciler/listeners.ts";
import type { Listeners, Told } from "../../src/reconciler/listeners.ts";
import { LATER } from "../../src/kube/work-queue.ts";
import type { Outcome } from "../../src/kube/work-queue.ts";
import { NamespaceLimit } from "../../src/reconciler/namespace-limit.ts";
import { Reconciler } from "../../src/reconciler/reconciler.ts";
import { World } from "../../src/reconciler/world.ts";
import { KINDS } from "./model-api.ts";
import type { Change, Kind, ModelApi } from "./model-api.ts";
import type { ModelHeadroom } from "./model-headroom.ts";

export const DRIVER_VERSION = "1.0.0";
const ENGINE = "s3csi";
export type Fate = "goes well" | "answer is late" | "is lost" | "answer is lost" | "kills us";

interface Call {
  readonly end: (fate: Fate) => void;
}

/** What was last told of something, and by which of the changes. */
interface Known {
  readonly at: number;
  readonly now: Told[Kind] | undefined;
}

/** The answers to writes of these are told before the watches tell of them. */
const ANSWERED: ReadonlySet<Kind> = new Set(["pod", "attachment"]);

/** Of the two queues, in one: what the keeper works on is a workload's UID. */
const HEADROOM = "headroom of ";
const log = pino({ level: "silent" });

/** One controller: its own lagging picture, its work in progress, held at every call. */
export class Replica {
  readonly #api: ModelApi;
  readonly #claims: readonly Claim[];
  #world!: World;
  #reconciler!: Reconciler;
  #keeper!: HeadroomKeeper;
  #listeners!: Listeners;
  #dirty = new Set<string>();
  #working = new Map<string, Promise<void>>();
  #calls: Call[] = [];
  /** When the keeper wants to look again. Nobody sweeps for it: it must get there by itself. */
  #dueMs = new Map<string, number>();
  #cursor = new Map<Kind, number>();
  #known = new Map<string, Known>();
  #later = new Set<string>();
  #life = 0;
  #settings = "";
  readonly #headroom: ModelHeadroom;

  constructor(api: ModelApi, headroom: ModelHeadroom, claims: readonly Claim[]) {
    this.#api = api;
    this.#headroom = headroom;
    this.#claims = claims;
    this.restart();
  }

  /** The driver's settings when this life began. */
  get settings(): string {
    return this.#settings;
  }

  /** Forgets everything, lists anew. Calls that were on their way never return. */
  restart(): void {
    this.#life += 1;
    const life = this.#life;
    this.#settings = this.#api.settings;
    this.#calls = [];
    this.#working = new Map();
    this.#dirty = new Set();
    this.#dueMs = new Map();
    this.#known = new Map();
    this.#later = new Set();
    this.#world = new World(() => undefined);
    const gate = <T>(call: () => T) => this.#hold(call, life);
    const enqueue = (name: string) => void this.#dirty.add(name);
    const limit = new NamespaceLimit({
      world: this.#world,
      limit: this.#api.limit,
      engine: ENGINE,
      enqueue,
    });
    this.#reconciler = new Reconciler({
      world: this.#world,
      limit,
      cluster: this.#api.cluster(gate, DRIVER_VERSION),
      driverVersion: DRIVER_VERSION,
      engine: ENGINE,
      log,
      nowMs: () => this.#api.nowMs,
      tell: () => Promise.resolve(),
    });
    this.#keeper = new HeadroomKeeper({
      world: this.#world,
      cluster: this.#headroom.cluster(gate),
      log,
      nowMs: () => this.#api.nowMs,
      enqueue: (uid) => this.#dirty.add(`${HEADROOM}${uid}`),
    });
    this.#listeners = listenersOf(this.#world, this.#reconciler, enqueue, {
      keeper: this.#keeper,
      limit,
    });
    for (const claim of this.#claims) {
      this.#world.claimChanged(`${claim.namespace}/${claim.name}`, claim);
    }
    const end = this.#api.changes.length;
    this.#cursor = new Map(KINDS.map((kind) => [kind, end]));
    for (const change of this.#api.listed()) this.#accept(change, end - 1);
  }

  /** The next event of one watch; the watches run behind each other as they like. */
  deliver(kind: Kind): boolean {
    const { changes } = this.#api;
    for (let at = this.#cursor.get(kind) ?? 0; at < changes.length; at += 1) {
      const change = changes[at];
      if (change?.kind !== kind) continue;
      this.#cursor.set(kind, at + 1);
      this.#accept(change, at);
      return true;
    }
    this.#cursor.set(kind, changes.length);
    return false;
  }

  /** Never an older one after a newer: the answer to a write of ours may have come first. */
  #accept({ kind, key, now, tell }: Change, at: number): void {
    const known = this.#known.get(`${kind} ${key}`);
    if (known !== undefined && known.at >= at) return;
    this.#known.set(`${kind} ${key}`, { at, now });
    tell(this.#listeners, known?.now);
  }

  sweep(): void {
    for (const name of this.#world.names()) this.#dirty.add(name);
  }

  /** Begins work on a name that waits, if one does. */
  work(): boolean {
    this.#wake();
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
      const outcome = await this.#workOn(name, AbortSignal.timeout(60_000));
      if (life !== this.#life) return;
      if (outcome === LATER) {
        this.#later.add(name);
        this.#dirty.add(name);
      } else if (outcome !== undefined && name.startsWith(HEADROOM)) {
        this.#dueMs.set(name, this.#api.nowMs + outcome);
      }
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (life === this.#life) this.#dirty.add(name);
    }
    if (life === this.#life) this.#working.delete(name);
  }

  #workOn(name: string, signal: AbortSignal): Promise<Outcome> {
    if (!name.startsWith(HEADROOM)) {
      return this.#reconciler.reconcile(name, signal, this.#later.delete(name));
    }
    return this.#keeper.work(name.slice(HEADROOM.length), signal);
  }

  #wake(): void {
    for (const [name, dueMs] of this.#dueMs) {
      if (dueMs > this.#api.nowMs) continue;
      this.#dueMs.delete(name);
      this.#dirty.add(name);
    }
  }

  #hold<T>(call: () => T, life: number): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    if (life !== this.#life) return promise; // a ghost of a life before: its world is gone
    const end = (fate: Fate) => {
      if (fate === "is lost") return reject(new Failure("remote", "lost"));
      const begin = this.#api.changes.length;
      let result: T;
      try {
        result = call();
      } catch (error) {
        return reject(error);
      }
      const made = this.#api.changes.slice(begin);
      const answer = () => {
        for (const [i, change] of made.entries()) {
          const isTold = ANSWERED.has(change.kind) && change.now !== undefined;
          if (isTold) this.#accept(change, begin + i);
        }
        resolve(result);
      };
      if (fate === "goes well") return answer();
      if (fate === "answer is late") return void this.#calls.push({ end: answer });
      this.#api.isAnswerLost = true;
      if (fate === "answer is lost") return reject(new Failure("remote", "lost"));
      return this.restart();
    };
    this.#calls.push({ end });
    return promise;
  }
}

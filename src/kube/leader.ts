import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { BackOff } from "./back-off.ts";
import type { KubeClient } from "./kube-client.ts";
import { LEASES, PODS } from "./resource.ts";
import type { Lease, Pod } from "./resource.ts";
import { WatchedList } from "./watched-list.ts";

export interface LeadershipOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly name: string;
  /** Unique among the candidates: the pod's name. The Lease goes with what made that pod. */
  readonly identity: string;
  readonly log: Log;
  /** A leader that has not renewed for so long is taken for dead. */
  readonly leaseMs?: number;
}

type Lead = (signal: AbortSignal) => Promise<void>;
type OwnerReferences = NonNullable<Lease["metadata"]>["ownerReferences"];

const LEASE_MS = 15_000;
const RENEWALS_PER_LEASE = 4;
/** A leader steps down this much before the others may begin: clocks and calls take time. */
const STEP_DOWN_SHARE = 0.7;

/**
 * Runs `lead` whenever this candidate holds the Lease; its signal aborts when the Lease is lost.
 * Resolves when the outer signal aborts, after `lead` has ended and the Lease is given back.
 */
export async function leadWhenElected(
  options: LeadershipOptions,
  lead: Lead,
  signal: AbortSignal,
): Promise<void> {
  const candidate = new Candidate(options);
  const following = candidate.follow(signal);
  const backOff = new BackOff(100, 10_000);
  while (!signal.aborted) {
    try {
      await candidate.elected(signal);
      backOff.reset();
      await term(candidate, lead, signal);
    } catch (error) {
      if (signal.aborted) break;
      if (!(error instanceof Failure)) throw error;
      const lost = error.kind === "stale" || error.kind === "conflict"; // another was faster
      options.log[lost ? "debug" : "warn"]({ err: error.message }, "election failed");
      await delay(backOff.nextMs(), undefined, { signal }).catch(() => undefined);
    }
  }
  await following;
}

/** From election to loss or end. Whoever leads has ended before anybody else may begin. */
async function term(candidate: Candidate, lead: Lead, signal: AbortSignal): Promise<void> {
  const end = new AbortController();
  const leading = lead(AbortSignal.any([signal, end.signal]));
  try {
    await Promise.race([leading, candidate.renewUntilLost(AbortSignal.any([signal, end.signal]))]);
  } finally {
    end.abort();
    await leading;
    await candidate.release();
  }
}

class Candidate {
  readonly #options: LeadershipOptions;
  readonly #leaseMs: number;
  readonly #lease: WatchedList<Lease, Lease>;
  /** When the Lease last changed, by our own clock: nobody else's clock is believed. */
  #changedMs = 0;
  #held: Lease | undefined;
  /**
   * The owners that the Lease is to have; undefined leaves it those that it has. Kubernetes may
   * refuse to change them, and a Lease with another owner is still good to lead by.
   */
  #owners: OwnerReferences = undefined;

  constructor(options: LeadershipOptions) {
    this.#options = options;
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
    const { client, namespace, name, log } = options;
    const selection = { namespace, fieldSelector: `metadata.name=${name}` };
    this.#lease = new WatchedList({
      client,
      log,
      selection,
      resource: LEASES,
      project: (lease) => lease,
    });
    this.#lease.onChange(() => {
      this.#changedMs = performance.now();
    });
  }

  async follow(signal: AbortSignal): Promise<void> {
    await this.#lease.start(signal);
  }

  /** Until the Lease is free or its holder silent for too long, and our write of it succeeds. */
  async elected(signal: AbortSignal): Promise<void> {
    await Promise.race([this.#lease.synced, aborted(signal)]);
    this.#owners ??= await this.#findOwners(signal);
    const seen = await this.#free(signal);
    const { name, identity, log } = this.#options;
    const transitions = (seen?.spec?.leaseTransitions ?? -1) + 1;
    try {
      this.#held = await this.#take(seen, transitions, signal);
    } catch (error) {
      const isDenied = error instanceof Failure && error.kind === "denied";
      if (!isDenied || seen === undefined || this.#owners === undefined) throw error;
      this.#owners = undefined;
      this.#held = await this.#take(seen, transitions, signal);
      log.warn({ lease: name, err: error.message }, "lease keeps its owner");
    }
    log.info({ lease: name, identity, transitions }, "elected");
  }

  /** The write that decides the election: of those who saw the same Lease one succeeds. */
  async #take(seen: Lease | undefined, transitions: number, signal: AbortSignal): Promise<Lease> {
    const { client, namespace, name, identity } = this.#options;
    const lease = this.#leaseFor(identity, transitions, seen);
    if (seen === undefined) return client.create(LEASES, lease, signal);
    return client.update(LEASES, { namespace, name }, lease, signal);
  }

  /** Returns when the Lease is another's, or could not be renewed in time. */
  async renewUntilLost(signal: AbortSignal): Promise<void> {
    const { client, namespace, name, identity, log } = this.#options;
    let renewedMs = performance.now();
    while (performance.now() - renewedMs < this.#leaseMs * STEP_DOWN_SHARE) {
      await delay(this.#leaseMs / RENEWALS_PER_LEASE, undefined, { signal });
      const startedMs = performance.now();
      const leftMs = Math.max(1, renewedMs + this.#leaseMs * STEP_DOWN_SHARE - startedMs);
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(leftMs))]);
      const lease = this.#leaseFor(identity, this.#held?.spec?.leaseTransitions ?? 0, this.#held);
      try {
        this.#held = await client.update(LEASES, { namespace, name }, lease, inTime);
        renewedMs = startedMs;
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        log.warn({ lease: name, err: error.message }, "lease not renewed");
        if (error.kind === "stale" || error.kind === "absent") break;
      }
    }
    this.#held = undefined;
    log.warn({ lease: name, identity }, "leadership lost");
  }

  /** Gives the Lease back, so that the next need not wait for it to run out. */
  async release(): Promise<void> {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    const { client, namespace, name, log } = this.#options;
    const lease = this.#leaseFor("", held.spec?.leaseTransitions ?? 0, held);
    try {
      await client.update(LEASES, { namespace, name }, lease, AbortSignal.timeout(2_000));
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      log.debug({ err: error.message }, "lease not given back");
    }
  }

  /**
   * In a Deployment the ReplicaSet of the own pod: Kubernetes removes the Lease with it. At an
   * uninstall the controller could not remove the Lease, since its rights are gone before it is.
   */
  async #findOwners(signal: AbortSignal): Promise<OwnerReferences> {
    const { client, namespace, identity, log } = this.#options;
    let pod: Pod | undefined;
    try {
      pod = await client.find(PODS, { namespace, name: identity }, signal);
    } catch (error) {
      if (!(error instanceof Failure) || error.kind !== "denied") throw error;
      log.warn({ lease: this.#options.name, err: error.message }, "lease has no owner");
    }
    const owner = pod?.metadata?.ownerReferences?.find(({ controller }) => controller === true);
    if (owner === undefined) return undefined;
    const { apiVersion, kind, name, uid } = owner;
    return [{ apiVersion, kind, name, uid }];
  }

  async #free(signal: AbortSignal): Promise<Lease | undefined> {
    const { namespace, name, identity } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      const lease = this.#lease.get(`${namespace}/${name}`);
      const holder = lease?.spec?.holderIdentity ?? "";
      const leftMs = this.#changedMs + this.#leaseMs - performance.now();
      if (holder === "" || holder === identity || leftMs <= 0) return lease;
      const version = lease?.metadata?.resourceVersion;
      const limit = AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(leftMs))]);
      const changed = this.#lease.until((list) => {
        const now = list.get(`${namespace}/${name}`)?.metadata?.resourceVersion;
        return now === version ? undefined : true;
      }, limit);
      await changed.catch(() => undefined); // whether it changed or its time is up: look again
    }
  }

  #leaseFor(holderIdentity: string, leaseTransitions: number, before: Lease | undefined): Lease {
    const { namespace, name } = this.#options;
    const { resourceVersion, ownerReferences } = before?.metadata ?? {};
    const owners = this.#owners ?? ownerReferences;
    const now = new Date().toISOString().replace("Z", "000Z"); // microseconds
    return {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: {
        namespace,
        name,
        ...(owners && { ownerReferences: owners }),
        ...(resourceVersion !== undefined && { resourceVersion }),
      },
      spec: {
        holderIdentity,
        leaseTransitions,
        leaseDurationSeconds: Math.ceil(this.#leaseMs / 1_000),
        renewTime: now,
        acquireTime: this.#held?.spec?.acquireTime ?? now,
      },
    };
  }
}

async function aborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(new Failure("timeout", "termination signal received"));
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  return promise;
}

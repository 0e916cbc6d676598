import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../../src/base/failure.ts";
import { createLog } from "../../src/base/pino-log.ts";
import { Secret } from "../../src/base/secret.ts";
import { BucketVolumes } from "../../src/controller/bucket-volumes.ts";
import { volumeNameOf } from "../../src/provisioner/facts.ts";
import { Provisioner } from "../../src/provisioner/provisioner.ts";
import { CLASS } from "../../src/provisioner/test-objects.ts";
import { ModelCluster, ModelStore } from "./provisioning-model.ts";
import type { Luck, Step } from "./provisioning-model.ts";

const RUNS = process.env["FULL"] ? 20_000 : 300;
const ROUNDS_MAX = 20;
const log = createLog("error", {});
log.level = "silent";
const silent = { claim: () => undefined, volume: () => undefined };
const secretAccessKey = new Secret("key");
const KEYS = {
  credentials: { accessKeyId: "id", secretAccessKey, sessionToken: undefined },
  region: undefined,
};

class Killed extends Error {}

/** One controller process: its luck runs out, or it does. */
class Replica {
  isDead = false;
  readonly #provisioner: Provisioner;
  readonly #cluster: ModelCluster;

  constructor(cluster: ModelCluster, store: ModelStore, luck: () => Luck) {
    this.#cluster = cluster;
    const step: Step = async (effect) => {
      await new Promise((resolve) => setImmediate(resolve)); // others come in between
      if (this.isDead) throw new Killed();
      const drawn = luck();
      if (drawn === "before") throw new Failure("remote", "never arrived");
      const result = effect();
      if (drawn === "after") throw new Failure("remote", "the answer was lost");
      if (drawn === "killed") {
        this.isDead = true;
        throw new Killed();
      }
      return result;
    };
    const options = { driverKeys: () => KEYS, region: "r", log };
    const driver = new BucketVolumes({ ...options, open: async () => store.as(step) });
    this.#provisioner = new Provisioner({ cluster: cluster.as(step), driver, events: silent, log });
  }

  /** Every claim and volume once, all at the same time, as the picture is now. */
  async round(signal: AbortSignal): Promise<void> {
    const claims = [...this.#cluster.claims.values()].map((claim) => {
      const volume = this.#cluster.volume(volumeNameOf(claim));
      return this.#provisioner.handleClaim(claim, CLASS, volume, signal);
    });
    const volumes = [...this.#cluster.volumes.keys()].flatMap((name) => {
      const volume = this.#cluster.volume(name);
      return volume === undefined ? [] : [this.#provisioner.handleVolume(volume, signal)];
    });
    for (const { reason } of (await Promise.allSettled([...claims, ...volumes])).filter(
      (outcome) => outcome.status === "rejected",
    )) {
      if (!(reason instanceof Failure) && !(reason instanceof Killed)) throw reason;
    }
  }
}

interface Life {
  readonly replicas: number;
  readonly lucks: readonly Luck[];
  /** In which round each claim is deleted; 0: never. */
  readonly deletedIn: readonly number[];
  /** Only when it is bound. */
  readonly patient: boolean;
}

async function live({ replicas, lucks, deletedIn, patient }: Life): Promise<void> {
  const [cluster, store] = [new ModelCluster(), new ModelStore()];
  const queue = lucks.values();
  const luck = () => queue.next().value ?? "fine";
  const born = () => new Replica(cluster, store, luck);
  const signal = new AbortController().signal;
  let running = Array.from({ length: replicas }, born);
  deletedIn.forEach((_, index) => cluster.addClaim(`u-${index}`));
  for (let round = 1; round <= ROUNDS_MAX; round += 1) {
    const acting = Promise.all(running.map((replica) => replica.round(signal)));
    await new Promise((resolve) => setImmediate(resolve));
    for (const [index, due] of deletedIn.entries()) {
      const isBound = cluster.claims.get(`u-${index}`)?.isBound === true;
      if (due !== 0 && due <= round && (isBound || !patient)) cluster.deleteClaim(`u-${index}`);
    }
    await acting;
    cluster.settle();
    running = running.map((replica) => (replica.isDead ? born() : replica));
  }
  const left = deletedIn.flatMap((due, index) => (due === 0 ? [`u-${index}`] : []));
  assert.deepEqual([...cluster.claims.keys()], left);
  for (const claim of cluster.claims.values()) assert(claim.isBound && !claim.isHeld);
  assert.equal(cluster.volumes.size, left.length);
  assert.equal(store.buckets.size, left.length, "a bucket for each claim, none besides");
}

const deletedIn = fc.array(fc.nat(6), { minLength: 1, maxLength: 4 });
const unlucky = fc.array(
  fc.constantFrom<Luck>("fine", "fine", "fine", "before", "after", "killed"),
  { maxLength: 40 },
);
const lossy = fc.array(fc.constantFrom<Luck>("fine", "fine", "before", "after"), { maxLength: 40 });

test("one controller, killed anywhere, S3 and API server failing, claims deleted at any time", () =>
  fc.assert(
    fc.asyncProperty(unlucky, deletedIn, (lucks, due) =>
      live({ replicas: 1, lucks, deletedIn: due, patient: false }),
    ),
    { numRuns: RUNS },
  ));

test("two controllers at once, S3 and API server failing", () =>
  fc.assert(
    fc.asyncProperty(lossy, deletedIn, (lucks, due) =>
      live({ replicas: 2, lucks, deletedIn: due, patient: true }),
    ),
    { numRuns: RUNS },
  ));

import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../../src/base/failure.ts";
import { createLog } from "../../src/base/pino-log.ts";
import { Secret } from "../../src/base/secret.ts";
import { BucketVolumes } from "../../src/controller/bucket-volumes.ts";
import { volumeNameOf } from "../../src/provisioner/facts.ts";
import type { Claim, Class, Volume } from "../../src/provisioner/facts.ts";
import { Provisioner } from "../../src/provisioner/provisioner.ts";
import { CLASS } from "../../src/provisioner/test-objects.ts";
import { parseVolumeHandle } from "../../src/volume/volume-handle.ts";
import { ModelCluster, ModelStore } from "./provisioning-model.ts";
import type { Luck, Step } from "./provisioning-model.ts";

const RUNS = process.env["FULL"] ? 20_000 : 300;
const ROUNDS_MAX = 30;
const log = createLog("error", {});
log.level = "silent";
const silent = { claim: () => undefined, volume: () => undefined };
const DRIVER = "driver";
const KEYS = {
  credentials: {
    accessKeyId: DRIVER,
    secretAccessKey: new Secret("key"),
    sessionToken: undefined,
  },
  region: undefined,
};

class Killed extends Error {}

const LISTS = ["claims", "volumes", "class"] as const;
type List = (typeof LISTS)[number];
/** A watch without news, or a controller manager that does nothing. */
type Late = List | "manager";

/** What the watches have told so far. */
interface Picture {
  readonly claims: readonly Claim[];
  readonly volumes: ReadonlyMap<string, Volume>;
  readonly class: Class | undefined;
}

/** One controller process: its luck runs out, or it does. */
class Replica {
  isDead = false;
  readonly #provisioner: Provisioner;
  readonly #cluster: ModelCluster;
  #picture: Picture;

  constructor(cluster: ModelCluster, store: ModelStore, luck: () => Luck) {
    this.#cluster = cluster;
    this.#picture = pictureOf(cluster);
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
    const driver = new BucketVolumes({
      driverKeys: () => KEYS,
      region: "r",
      log,
      open: async ({ credentials }) => store.as(credentials.accessKeyId, step),
    });
    const installedMs = 0;
    const port = cluster.as(step);
    this.#provisioner = new Provisioner({
      cluster: port,
      driver,
      installedMs,
      events: silent,
      log,
    });
  }

  /** The watches bring news, except those that are behind. */
  look(late: readonly Late[]): void {
    const behind = LISTS.filter((list) => late.includes(list));
    const old = behind.map((list) => [list, this.#picture[list]] as const);
    this.#picture = { ...pictureOf(this.#cluster), ...Object.fromEntries(old) };
  }

  /** Every claim and volume once, all at the same time, as the picture is now. */
  async round(signal: AbortSignal): Promise<void> {
    const { claims, volumes, class: storageClass } = this.#picture;
    const ofClaims = claims.map((claim) => {
      const volume = volumes.get(volumeNameOf(claim));
      return this.#provisioner.handleClaim(claim, storageClass, volume, signal);
    });
    const ofVolumes = [...volumes.values()].map((volume) =>
      this.#provisioner.handleVolume(volume, storageClass, signal),
    );
    for (const { reason } of (await Promise.allSettled([...ofClaims, ...ofVolumes])).filter(
      (outcome) => outcome.status === "rejected",
    )) {
      if (!(reason instanceof Failure) && !(reason instanceof Killed)) throw reason;
    }
  }
}

function pictureOf(cluster: ModelCluster): Picture {
  const names = [...cluster.volumes.keys()];
  const volumes = names.flatMap((name) => {
    const volume = cluster.volume(name);
    return volume === undefined ? [] : [[name, volume] as const];
  });
  return {
    claims: [...cluster.claims.values()],
    volumes: new Map(volumes),
    class: cluster.storageClass,
  };
}

interface Life {
  readonly replicas: number;
  readonly lucks: readonly Luck[];
  /** In which round each claim is deleted; 0: never. */
  readonly deletedIn: readonly number[];
  /** Only when it is bound. */
  readonly patient: boolean;
  /** By round: who is late. */
  readonly late: readonly (readonly Late[])[];
  /** By round: the class as it is then; at the end it is the first one of CLASSES. */
  readonly classes: readonly (Class | undefined)[];
  /** Whether S3 says of one's own bucket only that it exists. */
  readonly isCurt: boolean;
}

async function live(life: Life): Promise<void> {
  const { replicas, lucks, deletedIn, patient, late, classes, isCurt } = life;
  const [cluster, store] = [new ModelCluster(), new ModelStore(isCurt)];
  const queue = lucks.values();
  const luck = () => queue.next().value ?? "fine";
  const born = () => new Replica(cluster, store, luck);
  const signal = new AbortController().signal;
  deletedIn.forEach((_, index) => cluster.addClaim(`u-${index}`));
  let running = Array.from({ length: replicas }, born);
  for (let round = 1; round <= ROUNDS_MAX; round += 1) {
    cluster.storageClass = round <= classes.length ? classes[round - 1] : CLASSES[0];
    for (const replica of running) replica.look(late[round - 1] ?? []);
    const acting = Promise.all(running.map((replica) => replica.round(signal)));
    await new Promise((resolve) => setImmediate(resolve));
    for (const [index, due] of deletedIn.entries()) {
      const isBound = cluster.claims.get(`u-${index}`)?.isBound === true;
      if (due !== 0 && due <= round && (isBound || !patient)) cluster.deleteClaim(`u-${index}`);
    }
    await acting;
    if (late[round - 1]?.includes("manager") !== true) cluster.settle();
    running = running.map((replica) => (replica.isDead ? born() : replica));
  }
  const left = deletedIn.flatMap((due, index) => (due === 0 ? [`u-${index}`] : []));
  checkEnd(cluster, store, left);
}

function checkEnd(cluster: ModelCluster, store: ModelStore, left: readonly string[]): void {
  assert.deepEqual([...cluster.claims.keys()], left);
  for (const claim of cluster.claims.values()) {
    assert(claim.isBound && !claim.isHeld && claim.note === undefined);
  }
  const volumes = [...pictureOf(cluster).volumes.values()];
  assert.equal(volumes.length, left.length);
  const told = volumes.flatMap(({ handle, deletionKeys }) => {
    const { bucket = "", prefix } = parseVolumeHandle(handle) ?? {};
    const owner = deletionKeys.of === "secret" ? deletionKeys.secret.name : DRIVER;
    return prefix === "" ? [[bucket, owner] as const] : [];
  });
  const there = [...store.buckets].map(([bucket, { owner }]) => [bucket, owner] as const);
  const sorted = (pairs: typeof told) => pairs.toSorted(([a], [b]) => a.localeCompare(b));
  const because = "a bucket for each claim, where its PV says, none besides";
  assert.deepEqual(sorted(there), sorted(told), because);
}

const secretOf = (name: string) => ({
  "csi.storage.k8s.io/provisioner-secret-name": name,
  "csi.storage.k8s.io/provisioner-secret-namespace": "kube-system",
});
const CLASSES: readonly Class[] = [
  {},
  { bucketNamePrefix: "other-" },
  { region: "far" },
  { onDelete: "delete" },
  secretOf("alice"),
  { ...secretOf("bob"), bucketNamePrefix: "other-" },
].map((parameters) => ({ ...CLASS, parameters }));

const deletedIn = fc.array(fc.nat(6), { minLength: 1, maxLength: 4 });
const unlucky = fc.array(
  fc.constantFrom<Luck>("fine", "fine", "fine", "before", "after", "killed"),
  { maxLength: 40 },
);
const lossy = fc.array(fc.constantFrom<Luck>("fine", "fine", "before", "after"), { maxLength: 40 });
const late = fc.array(fc.subarray<Late>([...LISTS, "manager"]), { maxLength: 10 });
const classes = fc.array(fc.constantFrom(undefined, ...CLASSES), { maxLength: 10 });
const still = { replicas: 1, patient: false, late: [], classes: [] };

test("one controller, killed anywhere, S3 and API server failing, claims deleted at any time", () =>
  fc.assert(
    fc.asyncProperty(unlucky, deletedIn, fc.boolean(), (lucks, due, isCurt) =>
      live({ ...still, lucks, deletedIn: due, isCurt }),
    ),
    { numRuns: RUNS },
  ));

test("the same with old pictures, and a class that goes and comes back as another one", () =>
  fc.assert(
    fc.asyncProperty(
      unlucky,
      deletedIn,
      fc.boolean(),
      late,
      classes,
      (lucks, due, isCurt, lists, ofRounds) =>
        live({ ...still, lucks, deletedIn: due, isCurt, late: lists, classes: ofRounds }),
    ),
    { numRuns: RUNS },
  ));

test("two controllers at once, with old pictures, S3 and API server failing", () =>
  fc.assert(
    fc.asyncProperty(lossy, deletedIn, late, (lucks, due, lists) =>
      live({
        ...still,
        replicas: 2,
        patient: true,
        isCurt: false,
        lucks,
        deletedIn: due,
        late: lists,
      }),
    ),
    { numRuns: RUNS },
  ));

import { isDeepStrictEqual } from "node:util";
import { Failure, RetryLaterFailure, UnfinishedFailure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import type { NextStep } from "../kube/work-queue.ts";
import type { Log } from "../base/log.ts";
import type { CreateVolumeRequest } from "../csi/gen/csi_pb.ts";
import { needsKeys } from "../volume/volume-handle.ts";
import type { Cluster } from "./cluster.ts";
import { decideClaim, decideVolume } from "./decide.ts";
import type { ClaimStep } from "./decide.ts";
import type { Claim, Class, Volume } from "./facts.ts";
import { volumeNameOf } from "./facts.ts";
import { KeyReader } from "./key-reader.ts";
import type { Note } from "./note.ts";
import { planFor, volumeFor } from "./plan.ts";
import type { MadeVolume, Plan } from "./plan.ts";
import { sortParameters } from "./secret-refs.ts";
import { UnfinishedVolumeCleaner } from "./unfinished-volume-cleaner.ts";
import type { UnfinishedVolumeCleanerOptions } from "./unfinished-volume-cleaner.ts";

/** Who makes and deletes what is behind a volume: the CSI Controller service's own code. */
export interface Driver {
  /** The handle that create() would give: known before anything is made. */
  handleOf(request: CreateVolumeRequest): string;
  /** The parameters without which create() takes the request, and why it does not take them. */
  unusableParameters(request: CreateVolumeRequest): ReadonlyMap<string, string>;
  create(request: CreateVolumeRequest, signal: AbortSignal): Promise<MadeVolume>;
  readonly discard: UnfinishedVolumeCleanerOptions["discard"];
  /**
   * An UnfinishedFailure asks for another call soon, a RetryLaterFailure for the next attempt after
   * the time that it names.
   */
  delete(
    request: {
      readonly volumeId: string;
      readonly name: string;
      readonly secrets: Record<string, string>;
    },
    signal: AbortSignal,
  ): Promise<{ kept: string | undefined }>;
}

export interface ProvisionerOptions {
  readonly cluster: Cluster;
  readonly driver: Driver;
  /** A class that is older was made for the reference driver. NaN: not known, so none is. */
  readonly installedMs: number;
  readonly events: {
    claim(claim: Claim, type: "Normal" | "Warning", reason: string, note: string): void;
    volume(volume: Volume, type: "Normal" | "Warning", reason: string, note: string): void;
  };
  readonly log: Log;
  readonly attemptLimitMs?: number;
}

const ATTEMPT_LIMIT_MS = 60_000;
/** A bucket with many objects is emptied call by call; others have their turn in between. */
const GO_ON_AFTER_MS = 500;
const MINUTE_MS = 60_000;
/** S3 has said no: nothing was made. After any other failure something may have been. */
const VERDICTS: ReadonlySet<FailureKind> = new Set(["invalid", "denied", "conflict", "refused"]);

/** Claims to PVs, PVs to nothing: one at a time, each step such that it may be done again. */
export class Provisioner {
  readonly #options: ProvisionerOptions;
  readonly #keys: KeyReader;
  readonly #begun: UnfinishedVolumeCleaner;

  constructor(options: ProvisionerOptions) {
    const { cluster, driver, log } = options;
    this.#options = options;
    this.#keys = new KeyReader(cluster);
    const discard: UnfinishedVolumeCleanerOptions["discard"] = (...request) =>
      driver.discard(...request);
    this.#begun = new UnfinishedVolumeCleaner({ keys: this.#keys, discard, log });
  }

  /** Returns what it has done. */
  async handleClaim(
    claim: Claim,
    storageClass: Class | undefined,
    volume: Volume | undefined,
    signal: AbortSignal,
  ): Promise<ClaimStep> {
    const limited = this.#limited(signal);
    const step = decideClaim(claim, storageClass, volume);
    switch (step) {
      case "wait":
        break;
      case "let-go":
        await this.#options.cluster.removeClaimFinalizer(claim, limited);
        break;
      case "provision":
        await this.#explained(claim, () => this.#provision(claim, storageClass, limited));
        break;
      case "discard":
        await this.#explained(claim, () => this.#discard(claim, storageClass, limited));
        break;
      default:
        step satisfies never;
    }
    return step;
  }

  /** Returns when to go on with a volume that is not finished, or in how many ms to try again. */
  async handleVolume(
    volume: Volume,
    storageClass: Class | undefined,
    signal: AbortSignal,
  ): Promise<NextStep | number | undefined> {
    const { cluster } = this.#options;
    const limited = this.#limited(signal);
    const step = decideVolume(volume);
    switch (step) {
      case "wait":
        break;
      case "protect":
        await cluster.protectVolume(volume, limited);
        break;
      case "unprotect":
        await cluster.unprotectVolume(volume, limited);
        break;
      case "delete":
        return this.#deleteExplained(volume, storageClass, limited, signal);
      default:
        step satisfies never;
    }
    return undefined;
  }

  async #provision(
    claim: Claim,
    storageClass: Class | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { cluster, driver, events, log } = this.#options;
    const startedMs = performance.now();
    const plan = planFor(claim, this.#usable(claim, classIn(claim, storageClass)));
    const note = { volume: driver.handleOf(plan.request), secret: plan.secrets.provisioner };
    const secrets = await this.#secretsOf(plan, signal);
    await this.#leaveOldPlace(plan, note, signal);
    // From here on a bucket may exist that no PV tells of.
    await cluster.addClaimFinalizer(claim, note, signal);
    const made = await this.#make(plan, { ...plan.request, secrets }, signal);
    await cluster.createVolume(volumeFor(plan, made), signal);
    const name = volumeNameOf(claim);
    events.claim(claim, "Normal", "ProvisioningSucceeded", `Successfully provisioned ${name}`);
    const ms = Math.round(performance.now() - startedMs);
    const facts = { claim: `${claim.namespace}/${claim.name}`, volume: made.volumeId, pv: name };
    log.info({ ...facts, ms }, "volume provisioned");
  }

  /**
   * The reference driver ignored what it did not know, and parameters can't be edited: an older
   * class goes on working without them. Its Secrets are never left out. A class of the chart was
   * made for this driver, whatever its age.
   */
  #usable(claim: Claim, storageClass: Class): Class {
    const { driver, installedMs } = this.#options;
    const { createdMs, isOfChart, name, parameters } = storageClass;
    if (isOfChart === true || !(createdMs < installedMs)) return storageClass;
    const { secrets, rest, ignored } = sortParameters(parameters);
    const { request } = planFor(claim, { ...storageClass, parameters: { ...secrets, ...rest } });
    const unusable = driver.unusableParameters(request);
    for (const why of [...ignored, ...unusable.values()]) {
      const note = `${why}; ignored, since StorageClass ${name} is older than this driver`;
      this.#warn(claim, "ParameterIgnored", note);
    }
    const usable = Object.entries(rest).filter(([key]) => !unusable.has(key));
    return { ...storageClass, parameters: { ...secrets, ...Object.fromEntries(usable) } };
  }

  async #make(
    { claim }: Plan,
    request: CreateVolumeRequest,
    signal: AbortSignal,
  ): Promise<MadeVolume> {
    const { cluster, driver } = this.#options;
    try {
      return await driver.create(request, signal);
    } catch (error) {
      const isVerdict = error instanceof Failure && VERDICTS.has(error.kind);
      // An earlier attempt may have ended without one: then the claim stays held.
      if (isVerdict && !claim.isHeld) await cluster.removeClaimFinalizer(claim, signal);
      throw error;
    }
  }

  /** The claim's class is another one by now: what was begun by the old one goes first. */
  async #leaveOldPlace(plan: Plan, note: Note, signal: AbortSignal): Promise<void> {
    const { cluster } = this.#options;
    const { claim, storageClass } = plan;
    if (claim.note === undefined || isDeepStrictEqual(claim.note, note)) return;
    // Changes nothing: the API server refuses it if our copy of the claim is stale.
    await cluster.addClaimFinalizer(claim, claim.note, signal);
    if (await cluster.hasVolume(volumeNameOf(claim), signal)) {
      throw new Failure("stale", `${volumeNameOf(claim)} is not in the cache yet`);
    }
    const done = await this.#begun.clean(claim, storageClass, signal);
    if (done.is === "left") {
      const since = `has changed since ${claim.note.volume} was begun`;
      const advice = `${done.why}; give it back, or delete the claim`;
      throw new Failure("absent", `StorageClass ${claim.className} ${since}: ${advice}`);
    }
    if (done.is === "kept") this.#warn(claim, "BucketKept", done.why);
  }

  /** The claim goes, or was bound elsewhere, and has no PV: its unfinished volume is removed. */
  async #discard(
    claim: Claim,
    storageClass: Class | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { cluster, log } = this.#options;
    if (!(await cluster.hasVolume(volumeNameOf(claim), signal))) {
      const done = await this.#begun.clean(claim, storageClass, signal);
      if (done.is === "kept") this.#warn(claim, "BucketKept", done.why);
      if (done.is === "left") {
        // Keys that went with their namespace never come back: it must not hang for ever.
        log.warn({ claim: `${claim.namespace}/${claim.name}`, why: done.why }, "given up");
        this.#warn(claim, "BucketMayBeLeft", done.why);
      }
    }
    await cluster.removeClaimFinalizer(claim, signal);
  }

  async #deleteExplained(
    volume: Volume,
    storageClass: Class | undefined,
    limited: AbortSignal,
    signal: AbortSignal,
  ): Promise<NextStep | number | undefined> {
    const { events, log } = this.#options;
    try {
      await this.#delete(volume, storageClass, limited);
      return undefined;
    } catch (error) {
      if (!(error instanceof Failure) || signal.aborted) throw error;
      if (error instanceof UnfinishedFailure) {
        events.volume(volume, "Normal", "DeletionInProgress", error.message);
        return { stepAfterMs: GO_ON_AFTER_MS };
      }
      if (error instanceof RetryLaterFailure) {
        const { message, retryAfterMs } = error;
        const minutes = Math.round(retryAfterMs / MINUTE_MS);
        const next = `the next attempt is in ${minutes} minutes, or at once when the PV changes`;
        events.volume(volume, "Warning", "VolumeFailedDelete", `${message}; ${next}`);
        log.warn({ pv: volume.name, err: error, retryAfterMs }, "volume deletion failed");
        return retryAfterMs;
      }
      events.volume(volume, "Warning", "VolumeFailedDelete", error.message);
      throw error;
    }
  }

  /** Deleted, then the PV, then its finalizer: in the order of the official provisioner. */
  async #delete(seen: Volume, storageClass: Class | undefined, signal: AbortSignal): Promise<void> {
    const { cluster, driver, events } = this.#options;
    // Deleting is final: a cache that may be stale must not decide it.
    const volume = await cluster.findVolume(seen.name, signal);
    if (volume?.uid !== seen.uid || decideVolume(volume) !== "delete") return;
    const secrets = needsKeys(volume.handle)
      ? await this.#keys.ofDeletion(volume, storageClass, signal)
      : {};
    const { handle: volumeId, name } = volume;
    const { kept } = await driver.delete({ volumeId, name, secrets }, signal);
    if (kept !== undefined) events.volume(volume, "Warning", "BucketKept", kept);
    await cluster.deleteVolume(volume, signal);
    if (volume.hasFinalizer) await cluster.unprotectVolume(volume, signal);
  }

  /** Both Secrets must be there now, though only one is used now: else it fails at the mount. */
  async #secretsOf({ secrets }: Plan, signal: AbortSignal): Promise<Record<string, string>> {
    await this.#keys.read(secrets.nodePublish, "node-publish", signal);
    return this.#keys.read(secrets.provisioner, "provisioner", signal);
  }

  #warn(claim: Claim, reason: string, note: string): void {
    this.#options.events.claim(claim, "Warning", reason, note);
  }

  /** A user looks at the claim that waits, not at our log. */
  async #explained(claim: Claim, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const isToTell = error instanceof Failure && error.kind !== "stale";
      const note = error instanceof Error ? error.message : String(error);
      if (isToTell) this.#warn(claim, "ProvisioningFailed", note);
      throw error;
    }
  }

  #limited(signal: AbortSignal): AbortSignal {
    const { attemptLimitMs = ATTEMPT_LIMIT_MS } = this.#options;
    return AbortSignal.any([signal, AbortSignal.timeout(attemptLimitMs)]);
  }
}

function classIn(claim: Claim, storageClass: Class | undefined): Class {
  if (storageClass !== undefined) return storageClass;
  throw new Failure(
    "absent",
    `StorageClass ${claim.className} is gone, and with it how to go on with ` +
      `${volumeNameOf(claim)}: create it again, or delete the claim`,
  );
}

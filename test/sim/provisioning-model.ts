import assert from "node:assert/strict";
import { Failure } from "../../src/base/failure.ts";
import type { Buckets, Tags } from "../../src/controller/buckets.ts";
import type { PersistentVolume } from "../../src/kube/resource.ts";
import type { Cluster } from "../../src/provisioner/cluster.ts";
import { volumeNameOf, volumeOf } from "../../src/provisioner/facts.ts";
import type { Claim, Volume } from "../../src/provisioner/facts.ts";
import { CLAIM } from "../../src/provisioner/test-objects.ts";

/** What happens at a step: it fails before or after it has taken effect, or its doer dies. */
export type Luck = "fine" | "before" | "after" | "killed";

/** Runs one step of the outside world; the doer may be dead, unlucky, or overtaken. */
export type Step = <T>(effect: () => T) => Promise<T>;

/** S3 as one account sees it. */
export class ModelStore {
  readonly buckets = new Map<string, Tags>();

  as(step: Step): Buckets {
    const { buckets } = this;
    return {
      create: (bucket) =>
        step(() => {
          if (!buckets.has(bucket)) buckets.set(bucket, {});
          return "ours" as const;
        }),
      exists: (bucket) => step(() => buckets.has(bucket)),
      tags: (bucket) =>
        step(() => {
          const tags = buckets.get(bucket);
          if (tags === undefined) throw new Failure("absent", "NoSuchBucket");
          return tags;
        }),
      setTags: (bucket, tags) =>
        step(() => {
          if (!buckets.has(bucket)) throw new Failure("absent", "NoSuchBucket");
          buckets.set(bucket, tags);
          return true;
        }),
      delete: (bucket) => step(() => (buckets.delete(bucket) ? "deleted" : "absent")),
      empty: () => step(() => undefined),
    };
  }
}

/** The API server with the controller manager's part: binding, releasing, finalizers. */
export class ModelCluster {
  readonly claims = new Map<string, Claim>();
  readonly volumes = new Map<string, PersistentVolume>();

  addClaim(uid: string): void {
    this.claims.set(uid, { ...CLAIM, name: uid, uid });
  }

  deleteClaim(uid: string): void {
    const claim = this.claims.get(uid);
    if (claim !== undefined) this.#settle({ ...claim, isTerminating: true });
  }

  /** What the controller manager does between two looks at the cluster. */
  settle(): void {
    for (const claim of this.claims.values()) {
      const volumeName = volumeNameOf(claim);
      const isToBind = !claim.isBound && !claim.isTerminating && this.volumes.has(volumeName);
      if (isToBind) this.claims.set(claim.uid, { ...claim, isBound: true, volumeName });
    }
    for (const [name, volume] of this.volumes) {
      const isClaimed = this.claims.has(volume.spec?.claimRef?.uid ?? "");
      this.volumes.set(name, { ...volume, status: { phase: isClaimed ? "Bound" : "Released" } });
    }
  }

  volume(name: string): Volume | undefined {
    const found = this.volumes.get(name);
    return found === undefined ? undefined : volumeOf(found);
  }

  as(step: Step): Cluster {
    return {
      findVolume: (name) => step(() => this.volume(name)),
      hasVolume: (name) => step(() => this.volumes.has(name)),
      readSecret: () => step(() => undefined),
      holdClaim: ({ uid }) =>
        step(() => {
          const claim = this.claims.get(uid);
          if (claim === undefined) throw new Failure("absent", "no such claim");
          if (claim.isTerminating) throw new Failure("invalid", "no new finalizers");
          this.claims.set(uid, { ...claim, isHeld: true });
        }),
      letGoClaim: ({ uid }) =>
        step(() => {
          const claim = this.claims.get(uid);
          if (claim !== undefined) this.#settle({ ...claim, isHeld: false });
        }),
      createVolume: (volume) =>
        step(() => {
          const { name = "" } = volume.metadata ?? {};
          const uid = `pv-of-${name}`;
          const made = { ...volume, metadata: { ...volume.metadata, uid } };
          if (!this.volumes.has(name)) this.volumes.set(name, made);
        }),
      protectVolume: () => step(() => assert.fail("it was made with its finalizer")),
      unprotectVolume: ({ name }) => step(() => this.#edit(name, { finalizers: [] })),
      deleteVolume: ({ name }) =>
        step(() => this.#edit(name, { deletionTimestamp: "2026-01-01T00:00:00Z" })),
    };
  }

  #settle(claim: Claim): void {
    if (claim.isTerminating && !claim.isHeld) this.claims.delete(claim.uid);
    else this.claims.set(claim.uid, claim);
  }

  #edit(name: string, change: NonNullable<PersistentVolume["metadata"]>): void {
    const volume = this.volumes.get(name);
    if (volume === undefined) return;
    const metadata = { ...volume.metadata, ...change };
    const isGone = metadata.deletionTimestamp !== undefined && metadata.finalizers?.length === 0;
    if (isGone) this.volumes.delete(name);
    else this.volumes.set(name, { ...volume, metadata });
  }
}

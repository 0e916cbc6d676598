import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { Failure } from "../../src/base/failure.ts";
import { NoSuchBucketFailure } from "../../src/controller/buckets.ts";
import type { Buckets, Tags } from "../../src/controller/buckets.ts";
import type { PersistentVolume } from "../../src/kube/resource.ts";
import type { Cluster } from "../../src/provisioner/cluster.ts";
import { volumeNameOf, volumeOf } from "../../src/provisioner/facts.ts";
import type { Claim, Class, Volume } from "../../src/provisioner/facts.ts";
import { CLAIM, CLASS } from "../../src/provisioner/test-objects.ts";

/** What happens at a step: it fails before or after it has taken effect, or its doer dies. */
export type Luck = "fine" | "before" | "after" | "killed";

/** Runs one step of the outside world; the doer may be dead, unlucky, or overtaken. */
export type Step = <T>(effect: () => T) => Promise<T>;

interface ModelBucket {
  readonly owner: string;
  readonly tags: Tags;
}

/** S3 with its accounts. A curt one says of one's own bucket only that it exists. */
export class ModelStore {
  readonly buckets = new Map<string, ModelBucket>();
  readonly #isCurt: boolean;

  constructor(isCurt: boolean) {
    this.#isCurt = isCurt;
  }

  as(account: string, step: Step): Buckets {
    const { buckets } = this;
    const own = (bucket: string) => {
      const found = buckets.get(bucket);
      if (found === undefined) throw new NoSuchBucketFailure("no such bucket");
      return found.owner === account ? found : undefined;
    };
    return {
      create: (bucket) =>
        step(() => {
          const isNew = !buckets.has(bucket);
          if (isNew) buckets.set(bucket, { owner: account, tags: {} });
          return (isNew || !this.#isCurt) && own(bucket) !== undefined ? "ours" : "taken";
        }),
      exists: (bucket) => step(() => buckets.has(bucket)),
      owns: (bucket) => step(() => (buckets.get(bucket)?.owner === account ? "yes" : "no")),
      contents: () => step(() => "nothing"),
      tags: (bucket) => step(() => own(bucket)?.tags ?? "forbidden"),
      setTags: (bucket, tags) =>
        step(() => {
          const found = own(bucket);
          if (found !== undefined) buckets.set(bucket, { ...found, tags });
          return found === undefined ? "forbidden" : "set";
        }),
      delete: (bucket) =>
        step(() => {
          if (!buckets.has(bucket)) return "absent";
          if (own(bucket) === undefined) throw new Failure("denied", "AccessDenied");
          buckets.delete(bucket);
          return "deleted";
        }),
      abortUploads: () => step(() => 0),
      empty: () => step(() => "empty"),
    };
  }
}

/** The API server with the controller manager's part: binding, releasing, finalizers. */
export class ModelCluster {
  readonly claims = new Map<string, Claim>();
  readonly volumes = new Map<string, PersistentVolume>();
  storageClass: Class | undefined = CLASS;
  #version = 0;

  addClaim(uid: string): void {
    this.#put({ ...CLAIM, name: uid, uid });
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
      if (isToBind) this.#put({ ...claim, isBound: true, volumeName });
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
      readSecret: ({ name }) =>
        step(() => ({ access_key_id: name, secret_access_key: "key of that account" })),
      addClaimFinalizer: ({ uid, resourceVersion }, note) =>
        step(() => {
          const claim = this.claims.get(uid);
          if (claim === undefined) throw new Failure("absent", "no such claim");
          if (claim.resourceVersion !== resourceVersion) throw new Failure("stale", "changed");
          if (claim.isTerminating && !claim.isHeld) throw new Failure("invalid", "no finalizers");
          const held = { ...claim, isHeld: true, note };
          if (!isDeepStrictEqual(held, claim)) this.#put(held);
        }),
      removeClaimFinalizer: ({ uid }) =>
        step(() => {
          const claim = this.claims.get(uid);
          if (claim !== undefined) this.#settle({ ...claim, isHeld: false, note: undefined });
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
    else this.#put(claim);
  }

  #put(claim: Claim): void {
    this.#version += 1;
    this.claims.set(claim.uid, { ...claim, resourceVersion: String(this.#version) });
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

import type { PersistentVolume } from "../kube/resource.ts";
import type { Claim, Volume } from "./facts.ts";
import type { Note } from "./note.ts";
import type { SecretRef } from "./secret-ref.ts";

/** What the provisioner asks of the API server. Each may be repeated. */
export interface Cluster {
  /** From the store, not from a cache. */
  findVolume(name: string, signal: AbortSignal): Promise<Volume | undefined>;
  /** Whether there is a PV of this name, whoever has made it. */
  hasVolume(name: string, signal: AbortSignal): Promise<boolean>;
  /** Undefined where there is none. */
  readSecret(ref: SecretRef, signal: AbortSignal): Promise<Record<string, string> | undefined>;
  /** Finalizer and note; `stale` when the claim is no longer as it was seen. */
  addClaimFinalizer(claim: Claim, note: Note, signal: AbortSignal): Promise<void>;
  /** Both are taken off. */
  removeClaimFinalizer(claim: Claim, signal: AbortSignal): Promise<void>;
  createVolume(volume: PersistentVolume, signal: AbortSignal): Promise<void>;
  protectVolume(volume: Volume, signal: AbortSignal): Promise<void>;
  unprotectVolume(volume: Volume, signal: AbortSignal): Promise<void>;
  deleteVolume(volume: Volume, signal: AbortSignal): Promise<void>;
}

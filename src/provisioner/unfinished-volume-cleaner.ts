import { isDeepStrictEqual } from "node:util";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { parseVolumeHandle, volumeUuidOf } from "../volume/volume-handle.ts";
import type { Claim, Class } from "./facts.ts";
import { volumeNameOf } from "./facts.ts";
import type { KeyReader, Keys } from "./key-reader.ts";
import type { Note } from "./note.ts";
import type { SecretRef } from "./secret-ref.ts";
import { secretRefsOf } from "./secret-refs.ts";

export interface UnfinishedVolumeCleanerOptions {
  readonly keys: KeyReader;
  readonly discard: (
    request: { readonly volumeId: string; readonly name: string; readonly secrets: Keys },
    signal: AbortSignal,
  ) => Promise<{ kept: string | undefined }>;
  readonly log: Log;
}

/** The outcome of a cleanup. `left`: nobody can tell, or has the credentials. */
export type CleanupOutcome =
  | { readonly is: "gone" }
  | { readonly is: "kept" | "left"; readonly why: string };

/** Removes what was begun for a claim, by its note alone: its class may be gone or another one. */
export class UnfinishedVolumeCleaner {
  readonly #options: UnfinishedVolumeCleanerOptions;

  constructor(options: UnfinishedVolumeCleanerOptions) {
    this.#options = options;
  }

  async clean(
    claim: Claim,
    storageClass: Class | undefined,
    signal: AbortSignal,
  ): Promise<CleanupOutcome> {
    const name = volumeNameOf(claim);
    const { note } = claim;
    if (note === undefined) {
      const end = volumeUuidOf(name);
      const why = `the claim has lost its note: if there is a bucket …${end}, it is left`;
      return { is: "left", why };
    }
    // A prefix is nothing until somebody writes below it, and nobody has heard of it.
    if (parseVolumeHandle(note.volume)?.prefix !== "") return { is: "gone" };
    if (isVouchedFor(claim, storageClass, note.secret)) return this.#remove(name, note, signal);
    return this.#discreetly(claim, note, () => this.#remove(name, note, signal));
  }

  async #remove(
    name: string,
    { volume, secret }: Note,
    signal: AbortSignal,
  ): Promise<CleanupOutcome> {
    const { keys, discard } = this.#options;
    const secrets = await keys.readIfLeft(secret, "provisioner", signal);
    if (secrets === undefined) {
      const why =
        `bucket ${volume} may be left: the Secret ${secret?.namespace}/${secret?.name}, whose ` +
        "keys could delete it, is gone";
      return { is: "left", why };
    }
    const { kept } = await discard({ volumeId: volume, name, secrets }, signal);
    return kept === undefined ? { is: "gone" } : { is: "kept", why: kept };
  }

  /**
   * Nobody but the note names the Secret, and whoever may edit the claim may have written it: what
   * becomes of another namespace's Secret is for the log, not for an event.
   */
  async #discreetly(
    { namespace, name }: Claim,
    { volume, secret }: Note,
    work: () => Promise<CleanupOutcome>,
  ): Promise<CleanupOutcome> {
    const facts = { claim: `${namespace}/${name}`, volume, secret };
    try {
      const done = await work();
      if (done.is !== "left") return done;
      this.#options.log.warn({ ...facts, why: done.why }, "bucket may be left");
      return { is: "left", why: `bucket ${volume} may be left: the controller's log tells why` };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.#options.log.warn(
        { ...facts, err: error.message },
        "cleanup of unfinished volume failed",
      );
      const what = `cleanup of unfinished bucket ${volume} failed: the controller's log says why`;
      throw new Failure(error.kind, what, error);
    }
  }
}

function isVouchedFor(
  claim: Claim,
  storageClass: Class | undefined,
  secret: SecretRef | undefined,
): boolean {
  if (secret === undefined || secret.namespace === claim.namespace) return true;
  if (storageClass === undefined) return false;
  try {
    const { provisioner } = secretRefsOf(storageClass.parameters, claim);
    return isDeepStrictEqual(provisioner, secret);
  } catch (error) {
    if (error instanceof Failure) return false;
    throw error;
  }
}

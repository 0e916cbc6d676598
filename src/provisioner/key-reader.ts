import { Failure } from "../base/failure.ts";
import type { Cluster } from "./cluster.ts";
import { DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE } from "./facts.ts";
import type { Class, Volume } from "./facts.ts";
import type { SecretRef } from "./secret-ref.ts";
import { hasProvisionerSecret } from "./secret-refs.ts";

/** What a Secret holds; empty: the driver's own keys are meant. */
export type Keys = Record<string, string>;

const REQUIRED_KEYS = ["access_key_id", "secret_access_key"] as const;

/** Secrets for S3. Never a fall-back: the driver's keys are used where nobody named a Secret. */
export class KeyReader {
  readonly #cluster: Pick<Cluster, "readSecret">;

  constructor(cluster: Pick<Cluster, "readSecret">) {
    this.#cluster = cluster;
  }

  async read(ref: SecretRef | undefined, use: string, signal: AbortSignal): Promise<Keys> {
    if (ref === undefined) return {};
    const found = await this.#cluster.readSecret(ref, signal);
    if (found === undefined) throw new Failure("absent", `${about(ref, use)} does not exist`);
    return checked(found, ref, use);
  }

  /** Undefined where the Secret is gone, or with its namespace the right to read it. */
  async readIfLeft(ref: SecretRef | undefined, use: string, signal: AbortSignal) {
    if (ref === undefined) return {};
    const found = await this.#cluster.readSecret(ref, signal).catch((error: unknown) => {
      if (error instanceof Failure && error.kind === "denied") return undefined;
      throw error;
    });
    return found === undefined ? undefined : checked(found, ref, use);
  }

  async ofDeletion(
    { deletionKeys, className }: Volume,
    storageClass: Class | undefined,
    signal: AbortSignal,
  ): Promise<Keys> {
    switch (deletionKeys.of) {
      case "secret":
        return this.read(deletionKeys.secret, "deletion", signal);
      case "half": {
        const { set, missing } = deletionKeys;
        throw new Failure("invalid", `the PV's annotation ${set} is set, yet not ${missing}: both`);
      }
      case "untold":
        if (storageClass !== undefined && !hasProvisionerSecret(storageClass.parameters)) return {};
        throw new Failure("invalid", untold(className, storageClass));
      case "driver":
        return {};
      default:
        return deletionKeys satisfies never;
    }
  }
}

function untold(className: string, storageClass: Class | undefined): string {
  const why = storageClass === undefined ? "is gone" : "names a provisioner Secret";
  return (
    `StorageClass ${className} ${why}, and the PV does not tell which keys delete the volume: ` +
    `annotate it with ${DELETION_SECRET_NAME} and ${DELETION_SECRET_NAMESPACE}, both empty for ` +
    "the driver's keys"
  );
}

function checked(found: Keys, ref: SecretRef, use: string): Keys {
  const missing = REQUIRED_KEYS.filter((key) => (found[key] ?? "").trim() === "");
  if (missing.length === 0) return found;
  throw new Failure("invalid", `${about(ref, use)} has no ${missing.join(" and no ")}`);
}

function about({ namespace, name }: SecretRef, use: string): string {
  return `the ${use} Secret ${namespace}/${name}`;
}

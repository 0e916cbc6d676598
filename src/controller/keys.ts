import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { Secret } from "../base/secret.ts";
import type { Credentials } from "../s3/credentials.ts";
import { readDriverSecret } from "../volume/driver-secret.ts";

/** Who asks the S3 server, and in which region if the keys come with one. */
export interface Keys {
  readonly credentials: Credentials;
  readonly region: string | undefined;
}

type Given = Readonly<Record<string, string | undefined>>;

const REQUIRED = ["access_key_id", "secret_access_key"] as const;

/** The keys of a Kubernetes Secret. Never a fall-back to another's keys. */
export function keysOfSecret(secrets: Given): Keys {
  const keys = keysIn(secrets);
  if (keys !== undefined) return keys;
  const missing = REQUIRED.filter((key) => isBlank(secrets[key]));
  throw new Failure(
    "invalid",
    "failed to resolve credentials: CSI secrets missing required AWS credentials: " +
      `${missing.join(", ")}; the Secret must hold ${REQUIRED.join(" and ")}`,
  );
}

/** The driver's own credentials as they are now, see readDriverSecret. */
export function driverKeys(directory: string | undefined, env: Environment): Keys {
  const keys = keysIn({ ...readDriverSecret(directory, env).values });
  if (keys !== undefined) return keys;
  throw new Failure(
    "refused",
    "the driver has no credentials: create the Secret that the chart's s3CredentialSecret " +
      "names, or give the StorageClass its own with csi.storage.k8s.io/provisioner-secret-name",
  );
}

function keysIn(given: Given): Keys | undefined {
  const [id, key] = REQUIRED.map((name) => given[name]?.trim() ?? "");
  if (!id || !key) return undefined;
  const token = given["session_token"]?.trim() ?? "";
  const region = given["region"]?.trim() ?? "";
  return {
    credentials: {
      accessKeyId: id,
      secretAccessKey: new Secret(key),
      sessionToken: token === "" ? undefined : new Secret(token),
    },
    region: region === "" ? undefined : region,
  };
}

function isBlank(text: string | undefined): boolean {
  return text === undefined || text.trim() === "";
}

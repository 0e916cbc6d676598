import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { Secret } from "../base/secret.ts";
import type { Credentials } from "../s3/credentials.ts";

/** Who asks the S3 server, and in which region if the keys come with one. */
export interface Keys {
  readonly credentials: Credentials;
  readonly region: string | undefined;
}

type Given = Readonly<Record<string, string | undefined>>;

const REQUIRED = ["access_key_id", "secret_access_key"] as const;
const FILES = [...REQUIRED, "session_token"] as const;

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

/**
 * The driver's own, from the directory where its Secret is mounted, else the environment. Read
 * each time: whoever rotates keys only changes the Secret.
 */
export function driverKeys(directory: string | undefined, env: Environment): Keys {
  const keys = (directory === undefined ? undefined : keysIn(filesOf(directory))) ?? keysOfEnv(env);
  if (keys !== undefined) return keys;
  throw new Failure(
    "refused",
    "the driver has no credentials: create the Secret that the chart's s3CredentialSecret " +
      "names, or give the StorageClass its own with csi.storage.k8s.io/provisioner-secret-name",
  );
}

function keysOfEnv(env: Environment): Keys | undefined {
  return keysIn({
    access_key_id: env["AWS_ACCESS_KEY_ID"],
    secret_access_key: env["AWS_SECRET_ACCESS_KEY"],
    session_token: env["AWS_SESSION_TOKEN"],
  });
}

function filesOf(directory: string): Given {
  return Object.fromEntries(FILES.map((name) => [name, textOf(join(directory, name))]));
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (["ENOENT", "ENOTDIR"].includes(code)) return undefined; // the Secret is optional
    throw new Failure("refused", `the driver's credentials: ${path}: ${code}`, error);
  }
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

import { readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";

/** The keys of a Kubernetes Secret with S3 credentials, and the files that the chart mounts. */
export const SECRET_KEYS = ["access_key_id", "secret_access_key", "session_token"] as const;
export type SecretKey = (typeof SECRET_KEYS)[number];
export type SecretValues = Readonly<Partial<Record<SecretKey, string>>>;

const VARIABLES: Readonly<Record<SecretKey, string>> = {
  access_key_id: "AWS_ACCESS_KEY_ID",
  secret_access_key: "AWS_SECRET_ACCESS_KEY",
  session_token: "AWS_SESSION_TOKEN",
};
/** The kubelet renames a new symbolic link over this one: all files of a volume change at once. */
const DATA_LINK = "..data";

export interface DriverSecret {
  readonly values: SecretValues;
  /** The file or the environment variable in which a key is looked for, for error messages. */
  readonly nameOf: (key: SecretKey) => string;
}

/**
 * The driver's own credentials: the files of the directory where the kubelet mounts their Secret,
 * else environment variables. Values of the two are never combined, since an access key of one
 * account and a secret key of another sign nothing. The files are read on each call, so that a
 * rotated Secret is used without a restart.
 */
export function readDriverSecret(directory: string | undefined, env: Environment): DriverSecret {
  const files = directory === undefined ? {} : readSecretDirectory(directory);
  const variables = valuesBy((key) => env[VARIABLES[key]]);
  const isByFile = !isBlank(files) || (directory !== undefined && isBlank(variables));
  if (isByFile) return { values: files, nameOf: (key) => key };
  return { values: variables, nameOf: (key) => VARIABLES[key] };
}

/**
 * The files of one version of the Secret. The kubelet deletes the directory of the version before
 * as soon as `..data` points to the next one: files that were read meanwhile may be of both.
 */
export function readSecretDirectory(directory: string): SecretValues {
  for (;;) {
    const version = linkTarget(join(directory, DATA_LINK));
    const values = valuesBy((key) => textOf(join(directory, version ?? "", key)));
    if (linkTarget(join(directory, DATA_LINK)) === version) return values;
  }
}

function valuesBy(find: (key: SecretKey) => string | undefined): SecretValues {
  const found = SECRET_KEYS.map((key) => [key, find(key)] as const);
  return Object.fromEntries(found.filter(([, value]) => value !== undefined));
}

function isBlank(values: SecretValues): boolean {
  return Object.values(values).every((value) => value.trim() === "");
}

function textOf(path: string): string | undefined {
  return unlessAbsent(path, () => readFileSync(path, "utf8"));
}

/** Undefined for a directory that is no volume of a kubelet. */
function linkTarget(path: string): string | undefined {
  return unlessAbsent(path, () => readlinkSync(path));
}

/** Without the Secret, which is optional, the volume is empty. */
function unlessAbsent(path: string, read: () => string): string | undefined {
  try {
    return read();
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (["ENOENT", "ENOTDIR"].includes(code)) return undefined;
    throw new Failure("refused", `the driver's credentials: ${path}: ${code}`, error);
  }
}

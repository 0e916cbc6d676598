import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import type { Credentials } from "../handover/messages.ts";
import { readDriverSecret } from "../volume/driver-secret.ts";
import type { SecretKey } from "../volume/driver-secret.ts";
import type { AuthenticationSource } from "../volume/volume-context.ts";

type Secrets = Readonly<Record<string, string>>;

/** Where the driver's own credentials are: the mounted Secret, else environment variables. */
export interface DriverKeySource {
  readonly credentialsDir?: string | undefined;
  readonly env: Environment;
}

/** A key under its name in a Secret, and what it may look like. */
interface Part {
  readonly name: SecretKey;
  readonly form: RegExp;
  readonly rule: string;
}

/**
 * Wider than what AWS gives out, since other servers give out more (`tenant:user`); narrow enough
 * that none breaks the header it travels in.
 */
const ID: Part = {
  name: "access_key_id",
  form: /^[!-+\--.0-~]{1,128}$/,
  rule: "1 to 128 printable ASCII characters, no blank, comma or slash",
};
const KEY: Part = {
  name: "secret_access_key",
  form: /^[!-~]{1,128}$/,
  rule: "1 to 128 printable ASCII characters, no blank",
};
const TOKEN: Part = {
  name: "session_token",
  form: /^[!-~]{1,8192}$/,
  rule: "at most 8192 printable ASCII characters, no blank",
};
const PARTS = [ID, KEY, TOKEN] as const;

/** The keys for a mount, from where the volume says. Never a fall-back to another's keys. */
export function credentialsFor(
  source: AuthenticationSource,
  secrets: Secrets,
  driver: DriverKeySource,
): Credentials {
  return source === "secret" ? fromSecret(secrets) : ofDriver(driver);
}

/** What of the volume's Secret is not used, for the log and the event. */
export function secretWarnings(source: AuthenticationSource, secrets: Secrets): string[] {
  const names = Object.keys(secrets).toSorted();
  if (source === "driver") {
    if (names.length === 0) return [];
    return ["nodePublishSecretRef is not used: the volume has authenticationSource: driver"];
  }
  const known: string[] = PARTS.map(({ name }) => name);
  const unknown = names.filter((name) => !known.includes(name)).map((name) => JSON.stringify(name));
  const used = `used are ${known.join(", ")}`;
  return unknown.map((name) => `unexpected key ${name} in Kubernetes Secret is ignored: ${used}`);
}

function fromSecret(secrets: Secrets): Credentials {
  const { credentials, problems } = read(({ name }) => [name, secrets[name]]);
  if (problems.length === 0) return credentials;
  throw new Failure(
    "invalid",
    `missing or invalid keys in Kubernetes Secret: ${problems.join("; ")} (the volume has ` +
      "authenticationSource: secret, so the Secret of nodePublishSecretRef must hold them)",
  );
}

function ofDriver({ credentialsDir, env }: DriverKeySource): Credentials {
  const { values, nameOf } = readDriverSecret(credentialsDir, env);
  const { credentials, problems } = read(({ name }) => [nameOf(name), values[name]]);
  if (problems.length === 0) return credentials;
  throw new Failure(
    "refused",
    `the driver has no credentials: ${problems.join("; ")}; create the Secret that the chart's ` +
      "s3CredentialSecret names, or give the volume its own with authenticationSource: secret",
  );
}

/** Blanks around a value are a file's last line break. The values themselves are never told. */
function read(find: (part: Part) => readonly [name: string, value: string | undefined]) {
  const problems: string[] = [];
  const take = (part: Part) => {
    const [name, value = ""] = find(part);
    const trimmed = value.trim();
    if (trimmed === "" && part === TOKEN) return trimmed;
    if (trimmed === "") problems.push(`${name} is missing`);
    else if (!part.form.test(trimmed)) problems.push(`${name} is invalid: give ${part.rule}`);
    return trimmed;
  };
  const pair = { accessKeyId: take(ID), secretAccessKey: take(KEY) };
  const token = take(TOKEN);
  const credentials: Credentials = token === "" ? pair : { ...pair, sessionToken: token };
  return { credentials, problems };
}

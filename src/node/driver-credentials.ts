import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import type { Credentials } from "../handover/messages.ts";
import type { AuthenticationSource } from "../volume/volume-context.ts";

type Secrets = Readonly<Record<string, string>>;

/** A key under its name in a Secret and in the environment, and what it may look like. */
interface Part {
  readonly name: string;
  readonly variable: string;
  readonly form: RegExp;
  readonly rule: string;
}

/**
 * Wider than what AWS gives out, since other servers give out more (`tenant:user`); narrow enough
 * that none breaks the header it travels in.
 */
const ID: Part = {
  name: "access_key_id",
  variable: "AWS_ACCESS_KEY_ID",
  form: /^[!-+\--.0-~]{1,128}$/,
  rule: "1 to 128 printable ASCII characters, no blank, comma or slash",
};
const KEY: Part = {
  name: "secret_access_key",
  variable: "AWS_SECRET_ACCESS_KEY",
  form: /^[!-~]{1,128}$/,
  rule: "1 to 128 printable ASCII characters, no blank",
};
const TOKEN: Part = {
  name: "session_token",
  variable: "AWS_SESSION_TOKEN",
  form: /^[!-~]{1,8192}$/,
  rule: "at most 8192 printable ASCII characters, no blank",
};
const PARTS = [ID, KEY, TOKEN] as const;

/** The keys for a mount, from where the volume says. Never a fall-back to another's keys. */
export function credentialsFor(
  source: AuthenticationSource,
  secrets: Secrets,
  env: Environment,
): Credentials {
  return source === "secret" ? fromSecret(secrets) : fromEnvironment(env);
}

/** What of the volume's Secret is not used, for the log and the event. */
export function secretWarnings(source: AuthenticationSource, secrets: Secrets): string[] {
  const names = Object.keys(secrets).toSorted();
  if (source === "driver") {
    if (names.length === 0) return [];
    return ["nodePublishSecretRef is not used: the volume has authenticationSource: driver"];
  }
  const known = PARTS.map(({ name }) => name);
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

function fromEnvironment(env: Environment): Credentials {
  const { credentials, problems } = read(({ variable }) => [variable, env[variable]]);
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

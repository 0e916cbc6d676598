import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import type { Credentials } from "../handover/messages.ts";
import type { AuthenticationSource } from "../volume/volume-context.ts";

/** The keys for a mount, from where the volume says. Never a fall-back to another's keys. */
export function credentialsFor(
  source: AuthenticationSource,
  secrets: Readonly<Record<string, string>>,
  env: Environment,
): Credentials {
  return source === "secret" ? fromSecret(secrets) : fromEnvironment(env);
}

function fromSecret(secrets: Readonly<Record<string, string>>): Credentials {
  const wanted = ["access_key_id", "secret_access_key"];
  const missing = wanted.filter((key) => (secrets[key] ?? "").trim() === "");
  if (missing.length > 0) {
    throw new Failure(
      "invalid",
      `missing or invalid keys in Kubernetes Secret: ${missing.join(", ")} (the volume has ` +
        "authenticationSource: secret, so the Secret of nodePublishSecretRef must hold them)",
    );
  }
  return credentials(
    secrets["access_key_id"],
    secrets["secret_access_key"],
    secrets["session_token"],
  );
}

function fromEnvironment(env: Environment): Credentials {
  const { AWS_ACCESS_KEY_ID: id = "", AWS_SECRET_ACCESS_KEY: key = "" } = env;
  if (id.trim() === "" || key.trim() === "") {
    throw new Failure(
      "refused",
      "the driver has no credentials: create the Secret that the chart's s3CredentialSecret " +
        "names, or give the volume its own with authenticationSource: secret",
    );
  }
  return credentials(id, key, env["AWS_SESSION_TOKEN"]);
}

function credentials(id = "", key = "", token = ""): Credentials {
  const pair = { accessKeyId: id.trim(), secretAccessKey: key.trim() };
  return token.trim() === "" ? pair : { ...pair, sessionToken: token.trim() };
}

import type { Environment } from "../base/flags.ts";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Secret } from "../base/secret.ts";
import { fixedCredentials } from "../s3/credentials.ts";
import type { CredentialSource } from "../s3/credentials.ts";
import { SharedCredentials } from "../s3/shared-credentials.ts";
import type { MountOptions } from "./mount-options.ts";

/**
 * The named profile, else the environment's keys, else the default profile. Nobody is asked over
 * the network: an address that answers in a cloud hangs everywhere else.
 */
export function findCredentials(
  { signs, profile }: Pick<MountOptions, "signs" | "profile">,
  env: Environment,
): CredentialSource | undefined {
  if (!signs) return undefined;
  const home = env["HOME"] ?? "/";
  const paths = [
    env["AWS_SHARED_CREDENTIALS_FILE"] || join(home, ".aws/credentials"),
    env["AWS_CONFIG_FILE"] || join(home, ".aws/config"),
  ];
  if (profile !== undefined) return new SharedCredentials(paths, profile);
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = env;
  if (AWS_ACCESS_KEY_ID && AWS_SECRET_ACCESS_KEY) {
    return fixedCredentials({
      accessKeyId: AWS_ACCESS_KEY_ID,
      secretAccessKey: new Secret(AWS_SECRET_ACCESS_KEY),
      sessionToken: AWS_SESSION_TOKEN ? new Secret(AWS_SESSION_TOKEN) : undefined,
    });
  }
  const named = env["AWS_PROFILE"] || undefined;
  if (named === undefined && !paths.some((path) => existsSync(path))) return undefined;
  return new SharedCredentials(paths, named ?? "default");
}

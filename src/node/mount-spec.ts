import { Failure } from "../base/failure.ts";
import type { Credentials, MountSpec } from "../handover/messages.ts";
import { refuseOptionsOfOurs } from "../volume/engine.ts";
import type { Engine } from "../volume/engine.ts";
import type { MountPlan } from "../volume/mount-options.ts";
import { credentialsFor } from "./driver-credentials.ts";
import type { DriverKeySource } from "./driver-credentials.ts";
import type { PublishRequest } from "./publish-request.ts";

/** The environment holds the endpoint and the region, too. */
export interface DriverSettings extends DriverKeySource {
  readonly userAgent: string;
}

/** What the engine of a volume is told: the volume's own settings, then the driver's. */
export function mountSpecFor(
  request: PublishRequest,
  plan: MountPlan,
  settings: DriverSettings,
  engine: Engine = "s3csi",
): MountSpec {
  const { context } = request;
  const { env, userAgent } = settings;
  if (engine === "mount-s3") refuseOptionsOfOurs(plan.args);
  const args = [...plan.args, `--user-agent-prefix=${userAgent}`];
  const setUnlessChosen = (option: string, value: string | undefined) => {
    const chosen = plan.args.some((arg) => arg.startsWith(`${option}=`));
    if (!chosen && value) args.push(`${option}=${value}`);
  };
  setUnlessChosen("--endpoint-url", env["AWS_ENDPOINT_URL"]);
  // Our engine takes the driver's region for a guess, and the one that S3 names for the truth.
  const guesses = engine === "s3csi" && env["AWS_REGION"] ? { AWS_REGION: env["AWS_REGION"] } : {};
  const fixed = engine === "s3csi" ? undefined : env["AWS_REGION"];
  setUnlessChosen("--region", context.region ?? fixed);
  if (context.prefix !== "") args.push(prefixArg(context.prefix, plan));
  const credentials = keysFor(request, plan, settings);
  const spec = { bucket: context.bucketName, args, env: { ...guesses, ...plan.env }, credentials };
  return engine === "mount-s3" ? { ...spec, engine } : spec;
}

/** Null: requests are not signed. */
export function keysFor(
  { context, secrets }: PublishRequest,
  plan: MountPlan,
  driver: DriverKeySource,
): Credentials | null {
  if (plan.args.includes("--no-sign-request")) return null;
  return credentialsFor(context.authenticationSource, secrets, driver);
}

/** The volume's border. An option must not move it: beside it are the volumes of others. */
function prefixArg(prefix: string, { args }: MountPlan): string {
  if (!args.some((arg) => /^--prefix(=|$)/.test(arg))) return `--prefix=${prefix}`;
  throw new Failure(
    "invalid",
    `mountOptions: prefix can't be chosen: the volume itself is a prefix, ${prefix}`,
  );
}

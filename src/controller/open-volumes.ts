import type { Environment } from "../base/flags.ts";
import type { Log } from "../base/log.ts";
import type { FindUses } from "../volume/volume-use.ts";
import { CaBundle } from "../s3/ca-bundle.ts";
import type { AwsServer } from "./aws-buckets.ts";
import { BucketVolumes } from "./bucket-volumes.ts";
import { driverKeys } from "./keys.ts";

export interface VolumesSettings {
  /** AWS_ENDPOINT_URL, AWS_REGION, AWS_CA_BUNDLE, proxies, and the driver's keys. */
  readonly env: Environment;
  /** Where the Secret with the driver's keys is mounted. */
  readonly credentialsDir: string | undefined;
  readonly userAgent: string;
  readonly log: Log;
  /** Where Mountpoint Pods live; default mount-s3. */
  readonly mountpointNamespace?: string;
  /** Undefined without access to the API server: then CSI clients delete no objects. */
  readonly findUses?: FindUses | undefined;
}

const REGION_DEFAULT = "us-east-1";

export interface OpenedVolumes extends AsyncDisposable {
  readonly volumes: BucketVolumes;
}

/** The volumes of the S3 server that the environment names. */
export function openVolumes(settings: VolumesSettings): OpenedVolumes {
  const { env, credentialsDir, userAgent, log, findUses, mountpointNamespace } = settings;
  const endpoint = env["AWS_ENDPOINT_URL"] || undefined;
  const ca = caBundleOf(env["AWS_CA_BUNDLE"], log);
  let server: Promise<AwsServer> | undefined;
  // The SDK takes half a second to load: not before the first volume is asked for.
  const loaded = async () => {
    const { AwsServer } = await import("./aws-buckets.ts");
    return new AwsServer({ endpoint, ca, proxyEnv: env, userAgent });
  };
  const volumes = new BucketVolumes({
    open: async (keys, region) => (await (server ??= loaded())).open(keys, region),
    driverKeys: () => driverKeys(credentialsDir, env),
    region: env["AWS_REGION"] || REGION_DEFAULT,
    log,
    findUses,
    ...(mountpointNamespace === undefined ? {} : { mountpointNamespace }),
  });
  return {
    volumes,
    async [Symbol.asyncDispose]() {
      (await server)?.[Symbol.dispose]();
    },
  };
}

function caBundleOf(path = "", log: Log): CaBundle | undefined {
  if (path === "") return undefined;
  return new CaBundle({ path, setting: "AWS_CA_BUNDLE", isExclusive: true, log });
}

import { once } from "node:events";
import * as z from "zod";
import { flagsHelp, readConfig } from "../base/flags.ts";
import type { ConfigOf, Environment, Flags } from "../base/flags.ts";
import { LOG_LEVELS } from "../base/log.ts";
import { createLog } from "../base/pino-log.ts";
import type { Log } from "../base/log.ts";
import { VERSION } from "../base/version.ts";
import { MOUNTPOINT_NAMESPACE_DEFAULT } from "../volume/names.ts";

const PORT_MAX = 65_535;

export const LOG_FLAGS = {
  logLevel: {
    schema: z.enum(LOG_LEVELS).default("info"),
    placeholder: "LEVEL",
    help: `how much to log: ${LOG_LEVELS.join(", ")}; default info`,
  },
} as const satisfies Flags;

/** For the roles that a kubelet keeps running. */
export const HEALTH_FLAGS = {
  healthPort: {
    schema: z
      .string()
      .regex(/^[0-9]{1,5}$/, "a port from 0 to 65535")
      .transform(Number)
      .refine((port) => port <= PORT_MAX, "a port from 0 to 65535")
      .optional(),
    placeholder: "PORT",
    help: "port of /healthz and /readyz, 0 for a free one; default none",
  },
} as const satisfies Flags;

/** For the roles that talk to the API server. */
export const CLUSTER_FLAGS = {
  kubeconfig: {
    schema: z.string().min(1).optional(),
    placeholder: "FILE",
    help: "how to reach the API server; default: as the pod's service account",
  },
  mountpointNamespace: {
    schema: z.string().min(1).default(MOUNTPOINT_NAMESPACE_DEFAULT),
    placeholder: "NAME",
    help: `where Mountpoint Pods live; default ${MOUNTPOINT_NAMESPACE_DEFAULT}`,
  },
} as const satisfies Flags;

export interface Role<F extends Flags> {
  readonly name: string;
  readonly summary: string;
  readonly flags: F & typeof LOG_FLAGS;
  /** Starts everything; what it returns is disposed when the process is told to end. */
  start(
    config: ConfigOf<F & typeof LOG_FLAGS>,
    log: Log,
    env: Environment,
  ): Promise<AsyncDisposable>;
}

/** Settings and log of a role; undefined when only its help was asked for, which is shown then. */
export function readSettings<F extends Flags>(
  role: Pick<Role<F>, "name" | "summary" | "flags">,
  argv: readonly string[],
  env: Environment,
): { readonly config: ConfigOf<F & typeof LOG_FLAGS>; readonly log: Log } | undefined {
  if (argv.includes("--help") || argv.includes("-h")) {
    process.stdout.write(`s3csi ${role.name}: ${role.summary}\n\n${flagsHelp(role.flags)}\n`);
    return undefined;
  }
  const config = readConfig(role.flags, argv, env);
  return { config, log: createLog(config.logLevel, { role: role.name, version: VERSION }) };
}

/** The life of a service: read the settings, start, wait for SIGTERM or SIGINT, end in order. */
export async function runRole<F extends Flags>(
  role: Role<F>,
  argv: readonly string[],
  env: Environment,
): Promise<number> {
  const set = readSettings(role, argv, env);
  if (set === undefined) return 0;
  const { config, log } = set;
  const told = Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")]);
  {
    await using _running = await role.start(config, log, env);
    await told;
    log.info("told to end");
  }
  log.info("ended");
  return 0;
}

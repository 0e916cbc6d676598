import { once } from "node:events";
import * as z from "zod";
import type { ConfigOf, Environment, Flags } from "../base/flags.ts";
import { createLog } from "../base/pino-log.ts";
import type { Log } from "../base/log.ts";
import { MOUNTPOINT_NAMESPACE_DEFAULT } from "../volume/names.ts";
import { logFieldsOf, readSettings } from "./settings.ts";
import type { LOG_FLAGS } from "./settings.ts";

const PORT_MAX = 65_535;

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

/** For the roles that have credentials of the driver. */
export const CREDENTIAL_FLAGS = {
  credentialsDir: {
    schema: z.string().startsWith("/").optional(),
    placeholder: "DIR",
    help: "where the Secret with the driver's keys is mounted; default AWS_… variables alone",
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
  /**
   * Starts everything; what it returns is disposed after a termination signal. The signal
   * says so too: what is waited for at the start may never come.
   */
  start(
    config: ConfigOf<F & typeof LOG_FLAGS>,
    log: Log,
    env: Environment,
    told: AbortSignal,
  ): Promise<AsyncDisposable>;
}

/** The life of a service: read the settings, start, wait for SIGTERM or SIGINT, end in order. */
export async function runRole<F extends Flags>(
  role: Role<F>,
  argv: readonly string[],
  env: Environment,
): Promise<number> {
  const config = readSettings(role, argv, env);
  if (config === undefined) return 0;
  const log = createLog(config.logLevel, logFieldsOf(role));
  const told = terminationSignal();
  const started = role.start(config, log, env, told).catch((error: unknown) => {
    if (!told.aborted) throw error;
    log.info({ err: error }, "termination signal received while starting");
    return undefined;
  });
  {
    await using running = await started;
    if (running !== undefined) await aborted(told);
    log.info("termination signal received");
  }
  log.info("ended");
  return 0;
}

/** By SIGTERM or SIGINT; a second one of a kind ends the process as if there were no handler. */
function terminationSignal(): AbortSignal {
  const told = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => told.abort());
  return told.signal;
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}

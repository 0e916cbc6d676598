import { once } from "node:events";
import { flagsHelp, readConfig } from "../base/flags.ts";
import type { ConfigOf, Environment, Flags } from "../base/flags.ts";
import { LOG_LEVELS, createLog } from "../base/log.ts";
import type { Log } from "../base/log.ts";
import { VERSION } from "../base/version.ts";
import * as z from "zod";

export const LOG_FLAGS = {
  logLevel: {
    schema: z.enum(LOG_LEVELS).default("info"),
    placeholder: "LEVEL",
    help: `how much to log: ${LOG_LEVELS.join(", ")}; default info`,
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

/** The life of a service: read the settings, start, wait for SIGTERM or SIGINT, end in order. */
export async function runRole<F extends Flags>(
  role: Role<F>,
  argv: readonly string[],
  env: Environment,
): Promise<number> {
  if (argv.includes("--help") || argv.includes("-h")) {
    process.stdout.write(`s3csi ${role.name}: ${role.summary}\n\n${flagsHelp(role.flags)}\n`);
    return 0;
  }
  const config = readConfig(role.flags, argv, env);
  const log = createLog(config.logLevel, { role: role.name, version: VERSION });
  const told = Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")]);
  {
    await using _running = await role.start(config, log, env);
    await told;
    log.info("told to end");
  }
  log.info("ended");
  return 0;
}

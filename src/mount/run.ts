import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { createLineLog } from "../base/line-log.ts";
import type { Log } from "../base/log.ts";
import { tell } from "./control-channel.ts";
import { readMountOptions } from "./mount-options.ts";
import type { MountOptions } from "./mount-options.ts";
import { exitStatusOf } from "./exit-status.ts";
import { usage } from "./option-page.ts";

export interface Given {
  readonly argv: readonly string[];
  readonly env: Environment;
  readonly log: Log;
}

/**
 * The roles `mount` and `engine`: the same words, served by one for as long as it takes, by the
 * other until it dies. Returns the exit status; the caller ends the process with it.
 */
export async function runWithOptions(
  role: "mount" | "engine",
  argv: readonly string[],
  env: Environment,
  serve: (options: MountOptions, given: Given) => Promise<number>,
): Promise<number> {
  try {
    const options = readMountOptions(argv, env);
    if (options !== undefined) {
      const log = openLog(role, options);
      return await serve(options, { argv, env, log });
    }
    process.stdout.write(usage());
    return 0;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    process.stderr.write(`s3csi mount: ${error.message}\n`);
    await tell({ did: "failed", kind: error.kind, message: error.message });
    return exitStatusOf(error.kind);
  }
}

/** The applications of a mount need its next engine more than a file of its log. */
function openLog(role: "mount" | "engine", options: MountOptions): Log {
  try {
    return createLineLog(options.logLevel, { role }, logFileOf(options));
  } catch (error) {
    if (role === "mount") throw error;
    const log = createLineLog(options.logLevel, { role });
    log.warn({ err: error }, "log file not opened, logging to stdout");
    return log;
  }
}

/** One file per run: nobody wants two mounts in one, and nobody rotates them. */
function logFileOf({ logDirectory }: MountOptions): string | undefined {
  if (logDirectory === undefined) return undefined;
  const time = new Date().toISOString().replace(/[:.]/g, "-");
  return join(logDirectory, `s3csi-mount-${time}-${process.pid}.log`);
}

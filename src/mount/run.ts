import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { createLineLog } from "../base/line-log.ts";
import { tell } from "./control-channel.ts";
import { readMountOptions } from "./mount-options.ts";
import type { MountOptions } from "./mount-options.ts";
import { exitStatusOf } from "./exit-status.ts";
import { usage } from "./option-page.ts";

/** The role `s3csi mount`. Returns the exit status; the caller ends the process with it. */
export async function runMount(argv: readonly string[], env: Environment): Promise<number> {
  try {
    const options = readMountOptions(argv, env);
    if (options !== undefined) return await run(options, argv, env);
    process.stdout.write(usage());
    return 0;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    process.stderr.write(`s3csi mount: ${error.message}\n`);
    await tell({ did: "failed", kind: error.kind, message: error.message });
    return exitStatusOf(error.kind);
  }
}

/** One file per run: nobody wants two mounts in one, and nobody rotates them. */
function logFileOf({ logDirectory }: MountOptions): string | undefined {
  if (logDirectory === undefined) return undefined;
  const time = new Date().toISOString().replace(/[:.]/g, "-");
  return join(logDirectory, `s3csi-mount-${time}-${process.pid}.log`);
}

/** With a parent that talks to us we are an engine; without one we are the parent of one. */
async function run(
  options: MountOptions,
  argv: readonly string[],
  env: Environment,
): Promise<number> {
  if (process.send === undefined) {
    const log = createLineLog(options.logLevel, { role: "mount" }, logFileOf(options));
    const { runStandalone } = await import("./standalone.ts");
    return runStandalone(options, argv, env, log);
  }
  const log = createLineLog(options.logLevel, { role: "engine" }, logFileOf(options));
  const { runHandedOver } = await import("./handed-over.ts");
  return runHandedOver(options, env, log);
}

import * as z from "zod";
import { flagsHelp, readConfig } from "../base/flags.ts";
import type { Environment, Flags } from "../base/flags.ts";
import { createLog } from "../base/log.ts";
import { Mounter } from "../mounter/mounter.ts";
import { LOG_FLAGS, endWith } from "./role.ts";

const FLAGS = {
  comm: {
    schema: z.string().startsWith("/").default("/comm"),
    placeholder: "DIR",
    help: "the directory that is shared with the node service; default /comm",
  },
  ...LOG_FLAGS,
} as const satisfies Flags;

/** Ends by itself: when the mount is let go, or at SIGTERM when there is none. */
export async function run(argv: readonly string[], env: Environment): Promise<number> {
  if (argv.includes("--help") || argv.includes("-h")) {
    process.stdout.write(
      `s3csi mounter: receive a mount and keep its engine\n\n${flagsHelp(FLAGS)}\n`,
    );
    return 0;
  }
  const config = readConfig(FLAGS, argv, env);
  const mounter = new Mounter(createLog(config.logLevel, { role: "mounter" }));
  process.on("SIGTERM", () => mounter.terminate());
  return endWith(await mounter.run(config.comm));
}

import type { Environment, Flags } from "../base/flags.ts";
import { createLineLog } from "../base/line-log.ts";
import { absolutePath, absolutePathIfAny } from "../base/plain-schema.ts";
import { Mounter } from "../mounter/mounter.ts";
import { dropStartUpPagesLater } from "../sys/start-up-pages.ts";
import { endWith } from "./end-with.ts";
import { LOG_FLAGS, logFieldsOf, readSettings } from "./settings.ts";

const FLAGS = {
  comm: {
    schema: absolutePath("/comm"),
    placeholder: "DIR",
    help: "the directory that is shared with the node service; default /comm",
  },
  mountS3: {
    schema: absolutePathIfAny(),
    placeholder: "FILE",
    help: "the program mount-s3, to serve by instead of our engine; default none",
  },
  credentialsDir: {
    schema: absolutePath("/credentials"),
    placeholder: "DIR",
    help: "memory, where mount-s3 finds its keys; default /credentials",
  },
  ...LOG_FLAGS,
} as const satisfies Flags;

const ROLE = { name: "mounter", summary: "receive a mount and keep its engine", flags: FLAGS };

/** Ends by itself: when the mount is let go, or at SIGTERM when there is none. */
export async function run(argv: readonly string[], env: Environment): Promise<number> {
  const config = readSettings(ROLE, argv, env);
  if (config === undefined) return 0;
  const { mountS3: program, credentialsDir } = config;
  const mountS3 = program === undefined ? undefined : { program, credentialsDir };
  const mounter = new Mounter(createLineLog(config.logLevel, logFieldsOf(ROLE)), mountS3);
  dropStartUpPagesLater();
  process.on("SIGTERM", () => mounter.terminate());
  process.on("SIGHUP", () => mounter.replaceEngine());
  return endWith(await mounter.run(config.comm));
}

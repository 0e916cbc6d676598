import type { Environment, Flags } from "../base/flags.ts";
import { createLineLog } from "../base/line-log.ts";
import { absolutePath, absolutePathIfAny, countIfAny } from "../base/plain-schema.ts";
import { Mounter } from "../mounter/mounter.ts";
import type { StartMountS3 } from "../mounter/mounter.ts";
import type { MountS3Settings } from "../mounter/mount-s3.ts";
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
  cacheLimit: {
    schema: countIfAny(),
    placeholder: "MIB",
    help: "the most that a cache may keep, whatever the mount asks for; default none",
  },
  ...LOG_FLAGS,
} as const satisfies Flags;

/**
 * One waits for connections, one on each for requests, one for the engine's words or its end: a
 * node service that comes again while its old connection hangs must not keep the last one busy.
 */
const POOL_THREADS = "8";

const ROLE = { name: "mounter", summary: "receive a mount and keep its engine", flags: FLAGS };

/** Ends by itself: when the mount is let go, or at SIGTERM when there is none. */
export async function run(argv: readonly string[], env: Environment): Promise<number> {
  const config = readSettings(ROLE, argv, env);
  if (config === undefined) return 0;
  process.env["UV_THREADPOOL_SIZE"] = POOL_THREADS; // read when the first thread is wanted
  const { mountS3: program, credentialsDir, cacheLimit: cacheLimitMib } = config;
  const log = createLineLog(config.logLevel, logFieldsOf(ROLE));
  const outputLog = createLineLog("debug", logFieldsOf(ROLE));
  const settings = program === undefined ? undefined : { program, credentialsDir, outputLog };
  const mountS3 = settings === undefined ? undefined : await mountS3By(settings);
  const mounter = new Mounter(log, { mountS3, cacheLimitMib });
  dropStartUpPagesLater();
  process.on("SIGTERM", () => mounter.terminate());
  process.on("SIGHUP", () => mounter.replaceEngine());
  return endWith(await mounter.run(config.comm));
}

/** Loaded only where it is used: other pods start without it. */
async function mountS3By(settings: MountS3Settings): Promise<StartMountS3> {
  const { MountS3 } = await import("../mounter/mount-s3.ts");
  return (spec, fuseFd, own) => new MountS3(spec, fuseFd, { ...settings, ...own });
}

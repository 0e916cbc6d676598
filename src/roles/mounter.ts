import * as z from "zod";
import type { Environment, Flags } from "../base/flags.ts";
import { Mounter } from "../mounter/mounter.ts";
import { endWith } from "./end-with.ts";
import { LOG_FLAGS, readSettings } from "./role.ts";

const FLAGS = {
  comm: {
    schema: z.string().startsWith("/").default("/comm"),
    placeholder: "DIR",
    help: "the directory that is shared with the node service; default /comm",
  },
  ...LOG_FLAGS,
} as const satisfies Flags;

const ROLE = { name: "mounter", summary: "receive a mount and keep its engine", flags: FLAGS };

/** Ends by itself: when the mount is let go, or at SIGTERM when there is none. */
export async function run(argv: readonly string[], env: Environment): Promise<number> {
  const set = readSettings(ROLE, argv, env);
  if (set === undefined) return 0;
  const mounter = new Mounter(set.log);
  process.on("SIGTERM", () => mounter.terminate());
  process.on("SIGHUP", () => mounter.replaceEngine());
  return endWith(await mounter.run(set.config.comm));
}

import type { Environment } from "../base/flags.ts";
import { runWithOptions } from "../mount/run.ts";
import { runStandalone } from "../mount/standalone.ts";
import { dropStartUpPagesLater } from "../sys/start-up-pages.ts";
import { endWith } from "./end-with.ts";

export async function run(argv: readonly string[], env: Environment): Promise<number> {
  dropStartUpPagesLater();
  return endWith(await runWithOptions("mount", argv, env, runStandalone));
}

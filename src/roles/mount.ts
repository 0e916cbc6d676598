import type { Environment } from "../base/flags.ts";
import { runMount } from "../mount/run.ts";
import { dropStartUpPagesLater } from "../sys/start-up-pages.ts";
import { endWith } from "./end-with.ts";

/** All that an engine loads before it serves: it is compiled when the bundle is made. */
export async function load(): Promise<void> {
  await import("../mount/handed-over.ts");
}

export async function run(argv: readonly string[], env: Environment): Promise<number> {
  dropStartUpPagesLater();
  return endWith(await runMount(argv, env));
}

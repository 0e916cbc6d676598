import type { Environment } from "../base/flags.ts";
import { runMount } from "../mount/run.ts";
import { endWith } from "./end-with.ts";

export async function run(argv: readonly string[], env: Environment): Promise<number> {
  return endWith(await runMount(argv, env));
}

import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { ToolError } from "../../progress.ts";
import { checkHost } from "../../stack/check-host.ts";
import { aimTable } from "../engine/aims.ts";
import { pagesOf } from "../engine/page.ts";
import type { WorkerMessage } from "../engine/worker.ts";
import type { Figures, Part } from "../part.ts";

const WORKER = join(import.meta.dirname, "../engine/worker.ts");

/** ROUNDS=5, and SCALE=1 for a file of 8 GiB and a directory of 100,000: minutes to fill. */
function settings(env: NodeJS.ProcessEnv): readonly string[] {
  const { ROUNDS: rounds = "5", SCALE: scale = "0" } = env;
  if (!/^[1-9]\d{0,2}$/.test(rounds)) {
    throw new ToolError(`ROUNDS=${rounds}: a number from 1 to 999 is right`);
  }
  if (!["0", "1"].includes(scale)) throw new ToolError(`SCALE=${scale}: 0 or 1 is right`);
  return [rounds, scale === "1" ? "scales" : "plain"];
}

/**
 * In a process of its own that has its mounts for itself and dies with this one: however the run
 * ends, no mount is left.
 */
async function run(progress: (text: string) => void): Promise<Figures> {
  checkHost();
  const wrapper = ["--pdeathsig", "KILL", "--", "unshare", "--mount", "--", process.execPath];
  const worker = fork(WORKER, settings(process.env), { execPath: "setpriv", execArgv: wrapper });
  let figures: Figures | undefined;
  worker.on("message", (message: WorkerMessage) => {
    if ("progress" in message) progress(message.progress);
    else figures = message.figures;
  });
  await once(worker, "exit");
  if (figures === undefined) throw new ToolError("the engine's benchmark gave no figures");
  return figures;
}

export const part: Part = {
  name: "engine",
  description: "a bucket mounted by s3csi, s3fs and rclone in turns on one S3 server; medians",
  run,
  table: aimTable,
  pages: pagesOf,
};

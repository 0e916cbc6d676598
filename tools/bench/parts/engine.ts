import { join } from "node:path";
import { ToolError } from "../../progress.ts";
import { figuresOfWorker } from "../apart.ts";
import { aimTable } from "../engine/aims.ts";
import { pagesOf } from "../engine/page.ts";
import type { Part } from "../part.ts";

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

export const part: Part = {
  name: "engine",
  description: "a bucket mounted by s3csi, s3fs and rclone in turns on one S3 server; medians",
  run: (progress) => figuresOfWorker(WORKER, settings(process.env), progress),
  table: aimTable,
  pages: pagesOf,
};

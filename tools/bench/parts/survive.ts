import { join } from "node:path";
import { ToolError } from "../../progress.ts";
import { figuresOfWorker } from "../apart.ts";
import type { Part } from "../part.ts";
import { aimTable, pagesOf } from "../survive/page.ts";

const WORKER = join(import.meta.dirname, "../survive/worker.ts");

/** Name in the environment → default, in the order of the worker's arguments. */
const SETTINGS = {
  READ_MIB: "4096",
  READ_KILLS: "200",
  WRITE_MIB: "2048",
  WRITE_KILLS: "100",
  PAIRS: "11",
} as const;

function settings(env: NodeJS.ProcessEnv): string[] {
  return Object.entries(SETTINGS).map(([name, standard]) => {
    const value = env[name] ?? standard;
    if (/^[1-9]\d{0,4}$/.test(value)) return value;
    throw new ToolError(`${name}=${value}: a number from 1 to 99999 is right`);
  });
}

export const part: Part = {
  name: "survive",
  description: "large files read and written while the engine is killed; what the journal costs",
  run: (progress) => figuresOfWorker(WORKER, settings(process.env), progress),
  table: aimTable,
  pages: pagesOf,
};

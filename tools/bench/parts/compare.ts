import { join } from "node:path";
import { ToolError } from "../../progress.ts";
import { run } from "../../run.ts";
import { figuresOfWorker } from "../apart.ts";
import { comparisonTable } from "../compare/table.ts";
import type { Part } from "../part.ts";

const ROOT = join(import.meta.dirname, "../../..");
const WORKER = join(import.meta.dirname, "../compare/worker.ts");
const PAGE = "docs/benchmarks/engine.md";

function git(...args: readonly string[]): Promise<string> {
  return run("git", ["-C", ROOT, ...args]);
}

/** AGAINST=COMMIT; without it the commit that the engine's page was made with. */
async function commitOf({ AGAINST }: NodeJS.ProcessEnv): Promise<string> {
  if (AGAINST === undefined) return (await git("log", "-1", "--format=%h", "--", PAGE)).trim();
  return (await git("rev-parse", "--short", "--verify", `${AGAINST}^{commit}`)).trim();
}

function roundsOf({ ROUNDS = "5" }: NodeJS.ProcessEnv): string {
  if (/^[1-9]\d{0,2}$/.test(ROUNDS)) return ROUNDS;
  throw new ToolError(`ROUNDS=${ROUNDS}: a number from 1 to 999 is expected`);
}

export const part: Part = {
  name: "compare",
  description: "this engine and an earlier commit's in turns, on one S3 server; medians",
  run: async (progress) => {
    const rounds = roundsOf(process.env);
    const commit = await commitOf(process.env).catch(() => {
      throw new ToolError(
        `AGAINST=${process.env["AGAINST"]}: a commit of this repository is expected`,
      );
    });
    return figuresOfWorker(WORKER, [commit, rounds], progress);
  },
  table: comparisonTable,
};

import { join } from "node:path";
import { ToolError } from "../../progress.ts";
import { figuresOfWorker } from "../apart.ts";
import type { Part } from "../part.ts";

const WORKER = join(import.meta.dirname, "../integrity/worker.ts");
const DEFAULT_ROUNDS = "5";

function rounds({ ROUNDS = DEFAULT_ROUNDS }: NodeJS.ProcessEnv): string {
  if (/^[1-9]\d{0,2}$/.test(ROUNDS)) return ROUNDS;
  throw new ToolError(`ROUNDS=${ROUNDS}: a number from 1 to 999 is expected`);
}

export const part: Part = {
  name: "integrity",
  description: "what the engine spends on a write, by what S3 verifies the body by; medians",
  run: (progress) => figuresOfWorker(WORKER, [rounds(process.env)], progress),
};

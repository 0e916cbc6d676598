import { ToolError } from "../../progress.ts";
import { buildImage } from "../../image.ts";
import { programs } from "../../programs.ts";
import { checkHost } from "../../stack/check-host.ts";
import type { Part } from "../part.ts";
import { publishFigures } from "../publish/figures.ts";
import { aimTable, pagesOf } from "../publish/page.ts";

/** ROUNDS=8; 1 is a quick look. */
function roundsOf({ ROUNDS: rounds = "8" }: NodeJS.ProcessEnv): number {
  if (/^[1-9]\d?$/.test(rounds)) return Number(rounds);
  throw new ToolError(`ROUNDS=${rounds}: a number from 1 to 99 is right`);
}

export const part: Part = {
  name: "publish",
  description: "pods on buckets in a whole cluster, until they are Ready and until all is gone",
  async run(progress) {
    checkHost();
    const rounds = roundsOf(process.env);
    for (const group of ["kubernetes", "versitygw", "helm"] as const) await programs(group);
    progress("the image");
    await buildImage();
    return publishFigures(rounds, progress);
  },
  table: aimTable,
  pages: pagesOf,
};

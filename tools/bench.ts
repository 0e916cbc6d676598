import { mkdir, readdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Part } from "./bench/part.ts";
import { machineFigures, reportOf, tableOf } from "./bench/report.ts";
import { ToolError, step, toolMain } from "./progress.ts";

const PARTS = join(import.meta.dirname, "bench/parts");
const REPORTS = join(import.meta.dirname, "../build/bench");
const PAGES = join(import.meta.dirname, "../docs/benchmarks");

async function partNames(): Promise<string[]> {
  return (await readdir(PARTS)).map((file) => basename(file, ".ts")).toSorted();
}

async function loadPart(name: string): Promise<Part> {
  const { part } = (await import(join(PARTS, `${name}.ts`))) as { part: Part };
  return part;
}

/** Measures one part: progress on stderr, its table on stdout, its figures in build/bench/. */
async function measure({ name, description, run, table = tableOf, pages }: Part): Promise<void> {
  const figures = await step(`measuring ${name}`, run);
  process.stdout.write(`${name}: ${description}\n${table(figures)}`);
  const report = reportOf(name, machineFigures(new Date()), figures);
  await writeInto(REPORTS, { [`${name}.json`]: `${JSON.stringify(report, null, 2)}\n` });
  if (pages !== undefined) await writeInto(PAGES, pages(report));
}

async function writeInto(dir: string, files: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(dir, { recursive: true });
  for (const [file, text] of Object.entries(files)) await writeFile(join(dir, file), text);
}

await toolMain(async () => {
  const names = await partNames();
  const [wanted] = process.argv.slice(2);
  if (wanted !== undefined && !names.includes(wanted)) {
    throw new ToolError(
      `the benchmark part ${wanted} does not exist yet; there are: ${names.join(", ")}`,
    );
  }
  for (const name of wanted === undefined ? names : [wanted]) await measure(await loadPart(name));
});

import { globSync } from "node:fs";
import { run } from "node:test";
import type { EventData } from "node:test";
import { seconds, toolMain } from "./progress.ts";

/** Pure tests need nothing but Node; stack tests start real servers, most of them as root. */
const PURE = ["src/**/*.test.ts", "tools/**/*.test.ts", "test/*.test.ts", "test/sim/**/*.test.ts"];
const KINDS = {
  pure: () => globSync(PURE),
  stack: () => globSync("test/*/**/*.test.ts", { exclude: PURE }),
};
type Kind = keyof typeof KINDS;

const PURE_AT_ONCE = 2;
const FILE_LIMIT_MS = { pure: 60_000, stack: 900_000 } satisfies Record<Kind, number>;

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

interface FileReport {
  durationMs: number;
  readonly counts: Counts;
  readonly failures: string[];
  readonly output: string[];
}

/** Runs the files of one kind and prints a line for each; what failed is printed in full. */
async function runKind(kind: Kind, only: readonly string[]): Promise<Counts> {
  const all = KINDS[kind]().toSorted();
  const files = only.length === 0 ? all : all.filter((file) => only.some((o) => file.includes(o)));
  const total: Counts = { passed: 0, failed: 0, skipped: 0 };
  if (files.length === 0) return total;
  process.stdout.write(`${kind} tests: ${files.length} files\n`);
  const reports = new Map<string, FileReport>();
  const reportOf = (file: string) => {
    const report = reports.get(file) ?? newReport();
    reports.set(file, report);
    return report;
  };
  const concurrency = kind === "pure" ? PURE_AT_ONCE : 1; // clusters spoil each other's timing
  const stream = run({ files, concurrency, timeout: FILE_LIMIT_MS[kind] });
  stream.on("test:pass", (event) => count(event, reportOf(event.file ?? ""), "passed"));
  stream.on("test:fail", (event) => count(event, reportOf(event.file ?? ""), "failed"));
  for (const type of ["test:stdout", "test:stderr"] as const) {
    stream.on(type, (event) => reportOf(event.file).output.push(event.message));
  }
  stream.on("test:summary", (summary) => {
    if (summary.file !== undefined) printFile(summary.file, reportOf(summary.file), kind, total);
  });
  for await (const _ of stream) continue;
  return total;
}

function newReport(): FileReport {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  return { durationMs: 0, counts, failures: [], output: [] };
}

type Ended = EventData.TestPass | EventData.TestFail;

function count(event: Ended, report: FileReport, result: "passed" | "failed"): void {
  if (event.nesting === 0) report.durationMs += event.details.duration_ms;
  if (event.details.type === "suite") return;
  if (event.skip !== undefined || event.todo !== undefined) report.counts.skipped += 1;
  else report.counts[result] += 1;
  if (result === "passed") return;
  const { error } = event.details as EventData.TestFail["details"];
  const reason = error.cause instanceof Error ? error.cause.stack : error.message;
  report.failures.push(`FAILED: ${event.name}
${reason}`);
}

function printFile(file: string, report: FileReport, kind: Kind, total: Counts): void {
  for (const key of ["passed", "failed", "skipped"] as const) total[key] += report.counts[key];
  const { passed, failed } = report.counts;
  const name = file.startsWith(process.cwd()) ? file.slice(process.cwd().length + 1) : file;
  const took = seconds(report.durationMs);
  if (failed > 0) {
    process.stdout.write(`  FAILED ${name}: ${passed} passed, ${failed} failed (${took})\n`);
    process.stdout.write(`${report.output.join("")}\n${report.failures.join("\n\n")}\n`);
  } else if (kind === "stack") {
    process.stdout.write(`  ok ${name}: ${passed} tests (${took})\n`);
  }
}

await toolMain(async () => {
  const [kinds = "pure", ...only] = process.argv.slice(2);
  const startedMs = performance.now();
  const sum: Counts = { passed: 0, failed: 0, skipped: 0 };
  for (const kind of kinds.split(",") as Kind[]) {
    const counts = await runKind(kind, only);
    for (const key of ["passed", "failed", "skipped"] as const) sum[key] += counts[key];
  }
  const skipped = sum.skipped > 0 ? `, ${sum.skipped} skipped` : "";
  process.stdout.write(`in ${seconds(performance.now() - startedMs)}\n`);
  process.stdout.write(`${sum.passed} passed, ${sum.failed} failed${skipped}\n`);
  if (sum.failed > 0 || sum.passed === 0) process.exitCode = 1;
});

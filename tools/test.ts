import { globSync } from "node:fs";
import { resolve } from "node:path";
import { run } from "node:test";
import type { EventData } from "node:test";
import { ToolError, seconds, toolMain } from "./progress.ts";
import { claimSlot, MARK } from "./stack/instance.ts";

/** Pure tests need nothing but Node; stack tests start real servers, most of them as root. */
const PURE = ["src/**/*.test.ts", "tools/**/*.test.ts", "test/*.test.ts", "test/sim/**/*.test.ts"];
const KINDS = {
  pure: { files: () => globSync(PURE), atOnce: 2, limitMs: 60_000 },
  stack: {
    files: () => globSync("test/*/**/*.test.ts", { exclude: PURE }),
    atOnce: 1, // clusters spoil each other's timing
    limitMs: process.env["FULL"] === "1" ? 5_400_000 : 900_000, // the long soak takes an hour
  },
};
type Kind = keyof typeof KINDS;

/** A process that is still there so long after its last test was due is killed. */
const END_LIMIT_MS = 10_000;

interface FileReport {
  durationMs: number;
  passed: number;
  skipped: number;
  readonly failures: string[];
  readonly output: string[];
}

/** Runs one file in a process of its own. However that process ends, the report tells. */
async function runFile(file: string, limitMs: number): Promise<FileReport> {
  const report: FileReport = { durationMs: 0, passed: 0, skipped: 0, failures: [], output: [] };
  const signal = AbortSignal.timeout(limitMs + END_LIMIT_MS);
  const stream = run({ files: [file], timeout: limitMs, signal });
  stream.on("test:pass", (event) => notePass(file, event, report));
  stream.on("test:fail", (event) => noteFailure(file, event, report));
  for (const type of ["test:stdout", "test:stderr", "test:diagnostic"] as const) {
    stream.on(type, ({ file: from, message }) => {
      if (from !== undefined) report.output.push(message); // without a file: the run's statistics
    });
  }
  for await (const _ of stream) continue;
  return report;
}

/** Node reports a file as a test of its own when its process told of no test, or ended badly. */
const isFile = (file: string, { name }: { name: string }) => resolve(name) === resolve(file);

function notePass(file: string, event: EventData.TestPass, report: FileReport): void {
  if (isFile(file, event)) {
    report.failures.push("FAILED: the process ended without a word on any test");
    return;
  }
  if (event.nesting === 0) report.durationMs += event.details.duration_ms;
  if (event.details.type === "suite") return;
  if (event.skip !== undefined || event.todo !== undefined) report.skipped += 1;
  else report.passed += 1;
}

function noteFailure(file: string, event: EventData.TestFail, report: FileReport): void {
  const { error, duration_ms: durationMs, type } = event.details;
  if (event.nesting === 0) report.durationMs += durationMs;
  if (type === "suite" && report.failures.length > 0) return; // its tests have told already
  const reason = error.cause instanceof Error ? wordsOf(error.cause) : error.message;
  const name = isFile(file, event) ? "the process of this file failed" : event.name;
  report.failures.push(`FAILED: ${name}\n${reason}`);
}

/** With what lies behind it: a property that fails says only for which input. */
function wordsOf({ stack = "", cause }: Error): string {
  return cause instanceof Error ? `${stack}\ncaused by: ${wordsOf(cause)}` : stack;
}

function printFile(file: string, report: FileReport, kind: Kind): void {
  const { passed, failures, output } = report;
  const took = seconds(report.durationMs);
  if (failures.length > 0) {
    process.stdout.write(
      `  FAILED ${file}: ${passed} passed, ${failures.length} failed (${took})\n`,
    );
    process.stdout.write(`${output.join("")}\n${failures.join("\n\n")}\n`);
  } else if (kind === "stack") {
    process.stdout.write(`  ok ${file}: ${passed} tests (${took})\n`);
  }
}

/** What stack tests leave among temporary files when they are killed goes at the next start. */
async function runStack(only: readonly string[]): Promise<FileReport[]> {
  await using instance = await claimSlot();
  Object.assign(process.env, { TMPDIR: instance.dir, [MARK]: instance.dir });
  return await runKind("stack", only);
}

/** Runs the files of one kind and prints a line for each; what failed is printed in full. */
async function runKind(kind: Kind, only: readonly string[]): Promise<FileReport[]> {
  const { files, atOnce, limitMs } = KINDS[kind];
  const wanted = (file: string) => only.length === 0 || only.some((part) => file.includes(part));
  const left = files().toSorted().filter(wanted);
  if (left.length > 0) process.stdout.write(`${kind} tests: ${left.length} files\n`);
  const reports: FileReport[] = [];
  const worker = async () => {
    for (let file = left.shift(); file !== undefined; file = left.shift()) {
      const report = await runFile(file, limitMs);
      printFile(file, report, kind);
      reports.push(report);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return reports;
}

await toolMain(async () => {
  const [kinds = "pure", ...only] = process.argv.slice(2);
  const startedMs = performance.now();
  let [passed, failed, skipped] = [0, 0, 0];
  for (const kind of kinds.split(",")) {
    if (!Object.hasOwn(KINDS, kind)) throw new ToolError(`no tests of the kind ${kind}`);
    const reports = await (kind === "stack" ? runStack(only) : runKind(kind as Kind, only));
    for (const report of reports) {
      passed += report.passed;
      failed += report.failures.length;
      skipped += report.skipped;
    }
  }
  process.stdout.write(`in ${seconds(performance.now() - startedMs)}\n`);
  process.stdout.write(`${passed} passed, ${failed} failed`);
  process.stdout.write(skipped > 0 ? `, ${skipped} skipped\n` : "\n");
  if (failed > 0 || passed === 0) process.exitCode = 1;
});

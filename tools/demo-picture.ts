import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { terminalSvg } from "./demo/terminal-svg.ts";
import type { TerminalLine } from "./demo/terminal-svg.ts";
import { ToolError, toolMain } from "./progress.ts";

const ROOT = join(import.meta.dirname, "..");
const PICTURE = join(ROOT, "docs/images/demo.svg");

/** Runs the demo and keeps what it tells from its first step on, with the time of each line. */
async function record(): Promise<TerminalLine[]> {
  const stdio = ["ignore", "pipe", "inherit"] as const;
  const demo = spawn(process.execPath, [join(ROOT, "tools/demo.ts")], { stdio: [...stdio] });
  const lines: TerminalLine[] = [{ atMs: 0, text: "$ make demo" }];
  let firstMs: number | undefined;
  createInterface({ input: demo.stdout }).on("line", (text) => {
    process.stdout.write(`${text}\n`);
    if (firstMs === undefined && !/^\d+\. /.test(text)) return; // it still prepares
    firstMs ??= performance.now();
    lines.push({ atMs: Math.round(performance.now() - firstMs), text });
  });
  const [status] = await once(demo, "close");
  if (status !== 0) throw new ToolError("the demo has failed: see above");
  return lines;
}

await toolMain(async () => {
  await writeFile(PICTURE, terminalSvg("make demo", await record()));
});

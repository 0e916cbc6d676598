import { spawn } from "node:child_process";
import type { SpawnOptions } from "node:child_process";
import { createInterface } from "node:readline";
import { ToolError } from "./progress.ts";

export interface RunOptions extends Pick<SpawnOptions, "cwd" | "env"> {
  /** Each line of stderr as it comes; without it, stderr is kept for the error message. */
  readonly onErrorLine?: (line: string) => void;
  readonly input?: string;
}

const KEPT_LINES = 40;

/**
 * Runs a program to its end and gives its stdout; a non-zero end is an error with its last words.
 */
export async function run(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  const child = spawn(program, args, {
    cwd: options.cwd,
    env: options.env,
    stdio: ["pipe", "pipe", "pipe"],
  });
  const kept: string[] = [];
  createInterface({ input: child.stderr }).on("line", (line) => {
    kept.push(line);
    if (kept.length > KEPT_LINES) kept.shift();
    options.onErrorLine?.(line);
  });
  const out: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
  child.stdin.on("error", () => {}); // a program that does not read its input may close it
  child.stdin.end(options.input ?? "");
  const status = await new Promise<number | string>((resolve, reject) => {
    child.once("error", (error: NodeJS.ErrnoException) => {
      reject(error.code === "ENOENT" ? new ToolError(`${program}: not found in PATH`) : error);
    });
    child.once("close", (code, signal) => resolve(code ?? signal ?? "?"));
  });
  if (status === 0) return Buffer.concat(out).toString();
  throw new Error(`${program} ${args.join(" ")}: ended with ${status}\n${kept.join("\n")}`);
}

/** The first line of a program's stdout that matches; the program is ended then. */
export async function firstLine(
  program: string,
  args: readonly string[],
  pattern: RegExp,
  timeoutMs: number,
): Promise<string> {
  const child = spawn(program, args, {
    stdio: ["ignore", "pipe", "inherit"],
    timeout: timeoutMs,
  });
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      if (pattern.test(line)) return line;
    }
  } finally {
    child.kill();
  }
  throw new Error(`${program} ${args.join(" ")}: no line with ${pattern} within ${timeoutMs} ms`);
}

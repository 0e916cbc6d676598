const REPORT_EVERY_MS = 15_000;

/** Seconds with one decimal, for people. */
export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/**
 * Runs one long step and says so: a line when it starts, one when it ends with its time, and while
 * it lasts one every 15 s (on a terminal: one line, rewritten) with whatever `status` has to tell.
 */
export async function step<T>(
  title: string,
  work: (status: (text: string) => void) => Promise<T>,
): Promise<T> {
  const startedMs = performance.now();
  const terminal = process.stderr.isTTY;
  let text = "";
  let lastLineMs = startedMs;
  const status = (next: string) => {
    text = next;
    const nowMs = performance.now();
    if (terminal) process.stderr.write(`\r\x1b[K  ${title}: ${text}`);
    else if (nowMs - lastLineMs >= REPORT_EVERY_MS) {
      lastLineMs = nowMs;
      process.stderr.write(`  ${title}: ${text} (${seconds(nowMs - startedMs)})\n`);
    }
  };
  status("…");
  try {
    const result = await work(status);
    if (terminal) process.stderr.write("\r\x1b[K");
    process.stderr.write(`  ${title}: done in ${seconds(performance.now() - startedMs)}\n`);
    return result;
  } catch (error) {
    if (terminal) process.stderr.write("\r\x1b[K");
    process.stderr.write(`  ${title}: failed after ${seconds(performance.now() - startedMs)}\n`);
    throw error;
  }
}

/**
 * The end of every tool: one clear line for what the user can mend, a stack for what is our bug.
 */
export async function toolMain(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const expected = error instanceof Error && error.name === "ToolError";
    process.stderr.write(expected ? `error: ${error.message}\n` : `${inspectError(error)}\n`);
    process.exitCode = 1;
  }
}

/** Something the person at the keyboard can mend: shown as one line, without a stack. */
export class ToolError extends Error {
  override readonly name = "ToolError";
}

function inspectError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

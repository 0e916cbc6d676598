import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

export interface Runner {
  readonly pid: number | undefined;
  /** Kills it with -9: it can't tidy up. */
  killHard(): Promise<void>;
}

/** Starts a script of this directory that holds a stack; it runs when it has said so. */
export async function startRunner(script: string, says: string): Promise<Runner> {
  const args = [join(import.meta.dirname, script)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  for await (const line of createInterface({ input: child.stdout })) {
    if (line !== says) continue;
    return {
      pid: child.pid,
      async killHard() {
        child.kill("SIGKILL");
        await ended;
      },
    };
  }
  throw new Error(`${script} ended without saying "${says}"`);
}

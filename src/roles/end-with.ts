import { exitNow } from "../sys/exit-now.ts";

/**
 * Ends the process, for roles that keep threads in system calls which only the kernel ends: Node's
 * own exit would wait for them. What was printed is out before.
 */
export async function endWith(status: number): Promise<never> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise((resolve) => void stream.write("", resolve));
  }
  exitNow(status);
  throw new Error("_exit(2) came back");
}

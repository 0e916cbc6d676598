import { readFileSync } from "node:fs";
import { readFile, readdir } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

const GONE_WITHIN_MS = 20_000;
const LOOK_EVERY_MS = 20;

/** Start time in clock ticks: with the pid it names a process for good, pids alone are reused. */
export async function startTimeOf(pid: number): Promise<string | undefined> {
  const fields = await statOf(pid);
  return fields === undefined || fields[0] === "Z" ? undefined : fields[19];
}

/** The live processes that have this `NAME=value` in their environment. Zombies do not count. */
export async function processesOf(variable: string): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await allPids()) {
    const environment = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
    if (environment.split("\0").includes(variable)) found.push(pid);
  }
  return found;
}

/** The one child of a process that is a mere wrapper (`nsenter`, `unshare`). */
export async function onlyChildOf(pid: number): Promise<number> {
  const [child] = childrenOf(pid);
  if (child === undefined) throw new Error(`process ${pid} has no child`);
  return child;
}

/** Those that run now, by the kernel's word. */
export function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  return children.split(" ").filter(Boolean).map(Number);
}

/** `VmHWM` is the highest ever, `VmRSS` the present; not a number for one that has just ended. */
export function memoryBytes(pid: number, line: "VmHWM" | "VmRSS" | "RssAnon"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${line}:\\s*(\\d+) kB`, "m").exec(status)?.[1]) * 1024;
}

/** Kills a process that may have ended by itself meanwhile. */
export function killIfThere(pid: number, signal: NodeJS.Signals = "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** The kernel tells nobody but the parent when a process is gone: look until it is. */
export async function waitUntilGone(find: () => Promise<readonly unknown[]>): Promise<void> {
  const deadlineMs = performance.now() + GONE_WITHIN_MS;
  for (;;) {
    const left = await find();
    if (left.length === 0) return;
    if (performance.now() > deadlineMs) throw new Error(`still there: ${left.join(", ")}`);
    await delay(LOOK_EVERY_MS);
  }
}

export async function allPids(): Promise<number[]> {
  return (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
}

/** The fields of /proc/PID/stat after the command's name, which may hold any character. */
export async function statOf(pid: number): Promise<string[] | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "latin1").catch(() => undefined);
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
}

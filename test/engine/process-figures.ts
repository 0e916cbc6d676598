import { readFileSync } from "node:fs";

/** In MiB: `VmHWM` is the highest ever, `VmRSS` the present. */
export function memoryMib(pid: number, line: "VmHWM" | "VmRSS"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${line}:\\s*(\\d+) kB`, "m").exec(status)?.[1]) / 1024;
}

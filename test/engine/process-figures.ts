import { memoryBytes } from "../../tools/stack/processes.ts";

export function memoryMib(pid: number, line: "VmHWM" | "VmRSS"): number {
  return memoryBytes(pid, line) / (1 << 20);
}

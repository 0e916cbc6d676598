import { readFileSync } from "node:fs";

/**
 * What this process has mapped, as /proc/self/smaps has it: `start-end permissions offset device
 * inode path`, and below it a line for each count.
 */
export function ownMappings(): string[] {
  return readFileSync("/proc/self/smaps", "utf8").split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
}

import { writeFileSync } from "node:fs";

/**
 * The kernel reads 128 KiB ahead by default, which costs a FUSE mount half of its throughput.
 * Only root of the machine may raise it; without that right the mount is slower, not broken.
 */
export function raiseReadAhead(device: string, sizeKib: number): boolean {
  try {
    writeFileSync(`/sys/class/bdi/${device}/read_ahead_kb`, String(sizeKib));
    return true;
  } catch {
    return false;
  }
}

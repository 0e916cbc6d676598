import { readFileSync, writeFileSync } from "node:fs";

/** The last mount at a directory, as `major:minor`. No path I/O: a hung mount can't hang us. */
export function deviceNumberOf(mountInfo: string, targetDir: string): string | undefined {
  let found: string | undefined;
  for (const line of mountInfo.split("\n")) {
    const fields = line.split(" ");
    const [, , device, , mountPoint] = fields;
    if (mountPoint !== undefined && unescapeOctal(mountPoint) === targetDir) found = device;
  }
  return found;
}

/**
 * The kernel reads 128 KiB ahead by default, which costs a FUSE mount half of its throughput.
 * Only root of the machine may raise it; without that right the mount is slower, not broken.
 */
export function raiseReadAhead(targetDir: string, sizeKib: number): boolean {
  const device = deviceNumberOf(readFileSync("/proc/self/mountinfo", "utf8"), targetDir);
  if (device === undefined) return false;
  try {
    writeFileSync(`/sys/class/bdi/${device}/read_ahead_kb`, String(sizeKib));
    return true;
  } catch {
    return false;
  }
}

/** mountinfo writes space, tab, newline and backslash as `\040` and so on. */
function unescapeOctal(text: string): string {
  const bytes = text.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCodePoint(Number.parseInt(octal, 8)),
  );
  return bytes;
}

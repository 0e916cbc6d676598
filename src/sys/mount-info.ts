import { readFileSync } from "node:fs";

/**
 * One line of /proc/PID/mountinfo: all we ever ask a filesystem is asked here, without touching it.
 */
export interface MountEntry {
  /** `major:minor`; the minor number of a FUSE mount names its connection too. */
  readonly device: string;
  readonly mountPoint: string;
  readonly type: string;
  readonly source: string;
  readonly readOnly: boolean;
}

/** The mounts that a process sees; the last one at a mount point is the one on top. */
export function readMounts(pid: number | "self" = "self"): MountEntry[] {
  return parseMountInfo(readFileSync(`/proc/${pid}/mountinfo`, "utf8"));
}

export function parseMountInfo(text: string): MountEntry[] {
  const entries: MountEntry[] = [];
  for (const line of text.split("\n")) {
    const fields = line.split(" ");
    const separator = fields.indexOf("-", 6); // optional fields come before it
    const [, , device, , mountPoint, options] = fields;
    if (device === undefined || mountPoint === undefined || separator === -1) continue;
    entries.push({
      device,
      mountPoint: unescapeOctal(mountPoint),
      type: fields[separator + 1] ?? "",
      source: unescapeOctal(fields[separator + 2] ?? ""),
      readOnly: options?.split(",").includes("ro") ?? false,
    });
  }
  return entries;
}

/** What is on top at a directory. */
export function mountAt(
  entries: readonly MountEntry[],
  mountPoint: string,
): MountEntry | undefined {
  return entries.findLast((entry) => entry.mountPoint === mountPoint);
}

/** mountinfo writes space, tab, newline and backslash as `\040` and so on. */
function unescapeOctal(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCodePoint(Number.parseInt(octal, 8)),
  );
}

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { ToolError } from "../progress.ts";

/** The programs that a cluster is started with, and the Debian package of each. */
const PROGRAMS = {
  ip: "iproute2",
  nsenter: "util-linux",
  openssl: "openssl",
  setpriv: "util-linux",
  unshare: "util-linux",
};

export interface Host {
  readonly uid: number;
  readonly exists: (path: string) => boolean;
  readonly hasProgram: (name: string) => boolean;
}

/** One clear line for what this machine lacks, before anything is started. */
export function checkHost(): void {
  const complaint = complaintAbout({
    uid: process.getuid?.() ?? -1,
    exists: existsSync,
    hasProgram: (name) => pathDirs().some((dir) => existsSync(join(dir, name))),
  });
  if (complaint !== undefined) throw new ToolError(complaint);
}

export function complaintAbout({ uid, exists, hasProgram }: Host): string | undefined {
  if (uid !== 0) return "the local cluster needs root: it makes namespaces, mounts and cgroups";
  if (!exists("/dev/fuse")) {
    return "the local cluster needs /dev/fuse: load the kernel module `fuse`";
  }
  const missing = Object.entries(PROGRAMS).find(([name]) => !hasProgram(name));
  if (missing === undefined) return undefined;
  const [name, debianPackage] = missing;
  return `the local cluster needs the program ${name}: install the package ${debianPackage}`;
}

const pathDirs = () => (process.env["PATH"] ?? "").split(delimiter).filter((dir) => dir !== "");

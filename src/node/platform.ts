import type { KernelCall } from "../sys/kernel-calls.ts";

/** The versions that a node runs, as far as they are known. */
export interface Platform {
  /** The release that `uname -r` prints. */
  readonly kernel: string;
  readonly missingCalls: readonly KernelCall[];
  readonly cgroupVersion: 1 | 2;
  /** Both versions are written like v1.31.2. */
  readonly kubelet?: string | undefined;
  readonly apiServer?: string | undefined;
}

/** A point in which a node is below the platform that the driver supports. */
export interface Shortfall {
  /** The words name the present state, its effect and the remedy. */
  readonly words: string;
  /** `fallback`: it works all the same. `unsupported`: it may not. `unusable`: it can't. */
  readonly level: "fallback" | "unsupported" | "unusable";
}

const KUBERNETES_MIN = [1, 31] as const;

/** docs/platforms.md shows the same rules as a table. */
export function shortfallsOf(platform: Platform): Shortfall[] {
  const { kernel, missingCalls, cgroupVersion } = platform;
  const shortfalls: Shortfall[] = [];
  if (missingCalls.includes("openat2")) {
    const words = `Linux ${kernel} lacks openat2, volumes can't be mounted: use Linux 5.6 or newer`;
    shortfalls.push({ words, level: "unusable" });
  }
  if (missingCalls.includes("mount_setattr")) {
    const how = "read-only volumes are bound by way of a private mount";
    const words = `Linux ${kernel} lacks mount_setattr, ${how}: use Linux 5.12 or newer`;
    shortfalls.push({ words, level: "fallback" });
  }
  if (cgroupVersion === 1) {
    const words = "the node has cgroup v1, which Kubernetes 1.35 and newer refuse: use cgroup v2";
    shortfalls.push({ words, level: "fallback" });
  }
  for (const [part, version] of [
    ["kubelet", platform.kubelet],
    ["API server", platform.apiServer],
  ]) {
    if (version === undefined || !isOld(version)) continue;
    const words = `the ${part} is ${version}: use Kubernetes ${KUBERNETES_MIN.join(".")} or newer`;
    shortfalls.push({ words, level: "unsupported" });
  }
  return shortfalls;
}

/** A version that nobody can read is none that is too old. */
function isOld(version: string): boolean {
  const [, major, minor] = /^v?(\d+)\.(\d+)/.exec(version) ?? [];
  if (major === undefined || minor === undefined) return false;
  const [minMajor, minMinor] = KUBERNETES_MIN;
  if (Number(major) !== minMajor) return Number(major) < minMajor;
  return Number(minor) < minMinor;
}

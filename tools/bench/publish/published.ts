import type { Cluster } from "../../stack/cluster.ts";
import { DRIVER_NAMESPACE } from "../../stack/driver.ts";

/** One publish as the node service has logged it. */
export interface Published {
  /** When it was answered. */
  readonly atMs: number;
  readonly workloadUid: string;
  readonly totalMs: number;
  /** `engine_ms` and the like, by name. */
  readonly parts: Readonly<Record<string, number>>;
}

/** Every publish of the node service so far. */
export async function publishedOf(cluster: Cluster): Promise<Published[]> {
  const args = ["logs", "-n", DRIVER_NAMESPACE, "daemonset/s3csi-node", "--tail=-1"];
  return publishedIn(await cluster.kubectl(args));
}

export function publishedIn(log: string): Published[] {
  const lines = log.split("\n").filter((line) => line.includes('"volume published"'));
  return lines.map((text) => {
    const line = JSON.parse(text) as Record<string, unknown>;
    const parts = Object.entries(line).filter(([name]) => name.endsWith("_ms"));
    return {
      atMs: Date.parse(String(line["time"])),
      workloadUid: String(line["pod"]),
      totalMs: Number(line["total_ms"]),
      parts: Object.fromEntries(parts.map(([name, value]) => [name, Number(value)])),
    };
  });
}

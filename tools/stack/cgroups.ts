import { existsSync } from "node:fs";
import { mkdir, readFile, readdir, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { killIfThere, waitUntilGone } from "./processes.ts";

const CGROUP_ROOT = "/sys/fs/cgroup";

/** The name of an instance's cgroup, in every hierarchy. */
export function cgroupOf(instanceName: string): string {
  return `s3csi-${instanceName}`;
}

/** The roots of the mounted hierarchies: one with cgroup v2, one per controller with v1. */
async function hierarchies(): Promise<string[]> {
  if (existsSync(join(CGROUP_ROOT, "cgroup.controllers"))) return [CGROUP_ROOT];
  const entries = await readdir(CGROUP_ROOT, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(CGROUP_ROOT, entry.name))
    .filter((dir) => existsSync(join(dir, "cgroup.procs")));
}

/** Makes the instance's cgroup in every hierarchy, ready for children and processes. */
export async function createCgroups(instanceName: string): Promise<void> {
  for (const hierarchy of await hierarchies()) {
    const dir = join(hierarchy, cgroupOf(instanceName));
    await mkdir(dir, { recursive: true });
    for (const file of ["cpuset.cpus", "cpuset.mems"]) {
      // a v1 cpuset starts empty, and an empty one takes no process
      if (!existsSync(join(hierarchy, "cpuset.clone_children"))) continue;
      await writeFile(join(dir, file), await readFile(join(hierarchy, file)));
    }
  }
}

/** Kills what still runs in the instance's cgroups and removes them, the deepest first. */
export async function removeCgroups(instanceName: string): Promise<void> {
  for (const hierarchy of await hierarchies()) {
    const top = join(hierarchy, cgroupOf(instanceName));
    if (!existsSync(top)) continue;
    const dirs = [top];
    for (const entry of await readdir(top, { recursive: true, withFileTypes: true })) {
      if (entry.isDirectory()) dirs.push(join(entry.parentPath, entry.name));
    }
    for (const dir of dirs.toSorted((a, b) => b.length - a.length)) await removeCgroup(dir);
  }
}

async function removeCgroup(dir: string): Promise<void> {
  await waitUntilGone(async () => {
    const pids = (await readFile(join(dir, "cgroup.procs"), "utf8")).split("\n").filter(Boolean);
    for (const pid of pids) killIfThere(Number(pid));
    return pids;
  });
  await rmdir(dir);
}

import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { debianLibraries, debianRoot } from "../../tools/debian.ts";
import { run } from "../../tools/run.ts";
import { cgroupOf } from "../../tools/stack/cgroups.ts";
import { MARK, STATE_ROOT, linkOf } from "../../tools/stack/instance.ts";

/** All is well. */
export const NOTHING = {
  processes: [],
  mounts: [],
  links: [],
  rules: [],
  networkNamespaces: [],
  cgroups: [],
  directories: [],
};

/** What an instance may leave on a machine, each kind as a list that is empty when all is well. */
export async function leftovers(instanceName: string): Promise<Record<string, string[]>> {
  const dir = join(STATE_ROOT, instanceName);
  const mounts = linesOf(await readFile("/proc/self/mountinfo", "utf8"));
  const links = linesOf(await run("ip", ["-oneline", "link", "show"]));
  const cgroups = await readdir("/sys/fs/cgroup", { recursive: true }).catch(() => []);
  const directories = await readdir(STATE_ROOT).catch(() => []);
  return {
    processes: await processesOf(instanceName),
    mounts: mounts.filter((line) => line.includes(dir) || line.includes("/var/lib/kubelet/")),
    links: links.filter((line) => line.includes(linkOf(instanceName)) || line.includes("cni")),
    rules: linesOf(await packetFilterRules()).filter((line) => /kube|cni/i.test(line)),
    networkNamespaces: await readdir("/run/netns").catch(() => []),
    cgroups: cgroups.filter((path) => path.includes(cgroupOf(instanceName))),
    directories: directories.filter((name) => name === instanceName),
  };
}

/** With the cluster's own nft: the machine may lack the program and still have the rules. */
async function packetFilterRules(): Promise<string> {
  const debian = await debianRoot();
  const env = { ...process.env, LD_LIBRARY_PATH: await debianLibraries(debian) };
  return run(join(debian, "usr/sbin/nft"), ["list", "ruleset"], { env });
}

function linesOf(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}

/** By the mark in their environment, or by a cgroup of ours: containers carry no mark. */
async function processesOf(instanceName: string): Promise<string[]> {
  const mark = `${MARK}=${join(STATE_ROOT, instanceName)}`;
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found: string[] = [];
  for (const pid of pids) {
    const read = (file: string) => readFile(`/proc/${pid}/${file}`, "latin1").catch(() => "");
    const marked = (await read("environ")).split("\0").includes(mark);
    const ours = marked || (await read("cgroup")).includes(`/${cgroupOf(instanceName)}`);
    const zombie = /^State:\s+Z/m.test(await read("status"));
    if (ours && !zombie) found.push(`${pid} ${await read("comm")}`);
  }
  return found;
}

import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { run } from "../run.ts";
import { linkOf } from "./instance.ts";
import type { Instance } from "./instance.ts";
import { killIfThere, onlyChildOf } from "./processes.ts";
import { Service } from "./service.ts";

/** Of the host, as the machine and its pods see it. */
export const HOST_ADDRESS = "10.99.0.1";
export const MACHINE_ADDRESS = "10.99.0.2";
/** The addresses of pods, which the host reaches through the machine. */
export const POD_CIDR = "10.244.0.0/24";
const NAMESPACES = ["--mount", "--pid", "--net", "--ipc", "--uts"];
const BOOTED_WITHIN_MS = 10_000;

/** No name server: nothing inside may wait for one that is out of reach. */
const ETC = { hosts: `127.0.0.1 localhost\n${MACHINE_ADDRESS} node1`, "resolv.conf": "" };
/** What the kubelet wants to find, and would otherwise write for the whole machine. */
const SYSCTLS = { "vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1" };

/**
 * A machine in the machine: own mounts, processes and network, like a container but with the real
 * root. When its first process dies, the kernel ends all others and takes mounts, links and packet
 * filter rules with them: there is nothing to tidy up, even after the runner was killed.
 */
export interface Machine extends AsyncDisposable {
  /** The words that run a program inside, put before it. */
  readonly enter: readonly string[];
  /**
   * The first process, as this machine's pid: /proc/PID/root and /proc/PID/mountinfo show inside.
   */
  readonly pid: number;
}

/** `programDirs` appear inside at `<instance>/programs/<name>`, wherever they are outside. */
export async function bootMachine(
  instance: Instance,
  programDirs: readonly string[],
): Promise<Machine> {
  const script = await prepare(instance, programDirs);
  const flags = [...NAMESPACES, "--fork", "--kill-child=KILL", "--mount-proc"];
  const init = new Service({
    instance,
    name: "machine",
    program: "unshare",
    args: [...flags, "sh", script],
  });
  try {
    await init.line(/^booted$/, BOOTED_WITHIN_MS);
    const pid = await onlyChildOf(init.pid);
    await connectNetwork(linkOf(instance.name), pid);
    const enter = ["nsenter", `--target=${pid}`, ...NAMESPACES, "--wd=/", "--"];
    await run("nsenter", [...enter.slice(1), "sh", "-ec", NETWORK_INSIDE]);
    return { enter, pid, [Symbol.asyncDispose]: () => end(init, pid) };
  } catch (error) {
    await init.kill();
    throw error;
  }
}

/** The first process goes, and with it all: its parent ends when the kernel has collected them. */
async function end(init: Service, pid: number): Promise<void> {
  killIfThere(pid);
  await init.ended;
}

async function prepare(instance: Instance, programDirs: readonly string[]): Promise<string> {
  const inside = (...parts: string[]) => join(instance.dir, ...parts);
  for (const dir of ["var-lib/kubelet/pods", "var-lib/containerd", "var-lib/cni", "masks"]) {
    await mkdir(inside(dir), { recursive: true });
  }
  const lines = ["set -e", "mount --make-rprivate /"];
  for (const dir of programDirs) {
    const target = inside("programs", programDirName(dir));
    await mkdir(target, { recursive: true });
    // Read-only: crun copies itself before each run where a container could write to it.
    lines.push(`mount --bind ${dir} ${target}`, `mount -o remount,bind,ro ${target}`);
  }
  const mask = async (path: string, text: string) => {
    const file = inside("masks", basename(path));
    await writeFile(file, `${text}\n`);
    lines.push(`mount --bind ${file} ${path}`);
  };
  for (const [name, text] of Object.entries(SYSCTLS)) await mask(`/proc/sys/${name}`, text);
  for (const [name, text] of Object.entries(ETC)) await mask(`/etc/${name}`, text);
  lines.push(
    `mount --bind ${inside("var-lib")} /var/lib`,
    // ext4 without a journal passes over what was deleted in the last minutes, a file at a time,
    // when it makes a new one in the same group of blocks: each pod gets a group of its own.
    `chattr +T ${inside("var-lib/kubelet/pods")} 2>/dev/null || true`, // other file systems
    "mount -t tmpfs -o mode=755 tmpfs /run",
    "mount -t tmpfs -o mode=755 tmpfs /var/log",
    "mount -t tmpfs -o mode=755 tmpfs /var/lib/cni",
    // Synced to a disk several times for every container, and gone with the machine.
    "mount -t tmpfs -o mode=711 tmpfs /var/lib/containerd",
    // Both versions of cgroups at once are none for crun, which then does with the first one.
    "! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified",
    "mount --make-rshared /", // pods with mount propagation need it
    "hostname node1",
    "trap '' CHLD", // inherited by what follows: the kernel then reaps orphans by itself
    "echo booted",
    "exec sleep 2147483647",
  );
  const script = inside("boot.sh");
  await writeFile(script, `${lines.join("\n")}\n`);
  return script;
}

/** The name of a program directory inside: the cache's, without its hash. */
export function programDirName(dir: string): string {
  return basename(dir).replace(/-[0-9a-f]{16}$/, "");
}

async function connectNetwork(link: string, pid: number): Promise<void> {
  const peer = ["peer", "name", "eth0", "netns", String(pid)];
  await run("ip", ["link", "add", link, "type", "veth", ...peer]);
  await run("ip", ["address", "add", `${HOST_ADDRESS}/30`, "dev", link]);
  await run("ip", ["link", "set", link, "up"]);
  await run("ip", ["route", "add", POD_CIDR, "via", MACHINE_ADDRESS, "dev", link]);
}

const NETWORK_INSIDE = `
  ip link set lo up
  ip address add ${MACHINE_ADDRESS}/30 dev eth0
  ip link set eth0 up
  ip route add default via ${HOST_ADDRESS}
  echo 1 > /proc/sys/net/ipv4/ip_forward
`;

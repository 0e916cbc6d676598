import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { emulatorFor } from "../../tools/image/architecture.ts";
import type { Architecture } from "../../tools/image/architecture.ts";
import { imageRoot } from "../../tools/image.ts";
import { run } from "../../tools/run.ts";
import { onlyChildOf } from "../../tools/stack/processes.ts";
import { RoleProcess } from "../health/role-process.ts";
import type { RoleOptions } from "../health/role-process.ts";

const CHROOT = "/usr/sbin/chroot";
const ROOT = "/mnt/root";
const ENTRY = ["/usr/bin/node", "/usr/lib/s3csi/s3csi.cjs"];

/** The field e_machine of an ELF header, little-endian. */
const ELF_MACHINES: Readonly<Record<Architecture, string>> = {
  amd64: String.raw`\x3e\x00`,
  arm64: String.raw`\xb7\x00`,
};
/** 64 bits, little-endian, version 1; any OS ABI; an executable or a position-independent one. */
const ELF_MAGIC = String.raw`\x7fELF\x02\x01\x01\x00` + String.raw`\x00`.repeat(8);
const ELF_MASK = String.raw`\xff`.repeat(7) + String.raw`\x00` + String.raw`\xff`.repeat(8);
const TYPE_AND_MACHINE_MASK = String.raw`\xfe\xff\xff\xff`;

/** The registration belongs to the user namespace: the machine itself never learns of it. */
const INIT = `
set -e
mount -t proc proc /proc
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
printf '%s' "$3" > /proc/sys/fs/binfmt_misc/register
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work ${ROOT}
mount -t overlay overlay -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" ${ROOT}
for dir in /proc /dev /sys "$2"; do mkdir -p "${ROOT}$dir"; mount --rbind "$dir" "${ROOT}$dir"; done
echo ready
exec cat
`;

/**
 * The image of another architecture as a container on this machine: the kernel starts each of its
 * programs in qemu-user. The namespaces end, with all in them, when this process ends.
 */
export class ForeignMachine implements AsyncDisposable {
  readonly #unshare: ChildProcess;
  readonly #initPid: number;

  private constructor(unshare: ChildProcess, initPid: number) {
    this.#unshare = unshare;
    this.#initPid = initPid;
  }

  /** `shared`: a directory of this machine that is there, too, under the same path. */
  static async start(architecture: Architecture, shared: string): Promise<ForeignMachine> {
    const elf = [`${ELF_MAGIC}${String.raw`\x02\x00`}${ELF_MACHINES[architecture]}`];
    elf.push(`${ELF_MASK}${TYPE_AND_MACHINE_MASK}`);
    const format = `:foreign:M::${elf.join(":")}:${await emulatorFor(architecture)}:F`;
    const namespaces = "--user --map-root-user --mount --pid --fork --kill-child".split(" ");
    const init = ["sh", "-c", INIT, "init", imageRoot(architecture), shared, format];
    const unshare = spawn("unshare", [...namespaces, "--propagation=private", ...init], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const lines = createInterface({ input: unshare.stdout });
    const [line] = await Promise.race([
      once(lines, "line"),
      once(unshare, "exit").then(([status]) => [`ended with ${String(status)}`]),
    ]);
    if (line !== "ready") throw new Error(`the machine for ${architecture} did not start: ${line}`);
    return new ForeignMachine(unshare, await onlyChildOf(unshare.pid ?? -1));
  }

  /** A role of the image's program. */
  start(args: readonly string[], options: Omit<RoleOptions, "program">): RoleProcess {
    return new RoleProcess(args, { ...options, program: this.#inside() });
  }

  /** The image's program, to its end; gives its stdout. */
  output(...args: readonly string[]): Promise<string> {
    const [program = "", ...words] = this.#inside();
    return run(program, [...words, ...args]);
  }

  #inside(): string[] {
    const namespaces = [`--target=${this.#initPid}`, "--user", "--mount", "--pid"];
    return ["/usr/bin/nsenter", ...namespaces, "--", CHROOT, ROOT, ...ENTRY];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#unshare, "exit");
    this.#unshare.stdin?.end(); // init ends with its input
    await exited;
  }
}

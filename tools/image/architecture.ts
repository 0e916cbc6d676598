import { copyFile, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { cached } from "../cache.ts";
import { fetchPackages } from "../debian.ts";
import { step } from "../progress.ts";

/** The architectures of the image, by the names that OCI and Debian have for them. */
export const ARCHITECTURES = ["amd64", "arm64"] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

/** The names of npm packages and of `process.arch`. */
export const NPM_CPUS = { amd64: "x64", arm64: "arm64" } as const satisfies Record<
  Architecture,
  string
>;

/** The architecture of this machine. */
export const OWN_ARCHITECTURE: Architecture = process.arch === "arm64" ? "arm64" : "amd64";

const EMULATORS = { amd64: "qemu-x86_64-static", arm64: "qemu-aarch64-static" } as const;

/** The program that runs binaries of another architecture on this machine: Debian's qemu-user. */
export async function emulatorFor(architecture: Architecture): Promise<string> {
  const program = EMULATORS[architecture];
  const dir = await cached("qemu", [program, process.arch], async (draft) => {
    await step("fetching qemu-user from Debian", async () => {
      const unpacked = join(draft, "unpacked");
      await mkdir(unpacked);
      await fetchPackages(unpacked, ["qemu-user-static"]);
      await copyFile(join(unpacked, "usr/bin", program), join(draft, program));
      await rm(unpacked, { recursive: true });
    });
  });
  return join(dir, program);
}

/** The first words of a command that runs a binary of the architecture from `root`. */
export async function emulation(architecture: Architecture, root: string): Promise<string[]> {
  if (architecture === OWN_ARCHITECTURE) return [];
  return [await emulatorFor(architecture), "-L", root];
}

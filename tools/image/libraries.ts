import { copyFile, mkdir, realpath } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { cached } from "../cache.ts";
import { debianLibraries, fetchPackages } from "../debian.ts";
import { step } from "../progress.ts";
import { run } from "../run.ts";
import { emulation } from "./architecture.ts";
import type { Architecture } from "./architecture.ts";

/** The C library of the image, whatever the machine that builds it has. */
export const LIBRARY_SUITE = "bookworm";
export const LIBRARY_PACKAGES = ["libc6", "libstdc++6", "libgcc-s1", "libatomic1"];

const LOADERS = {
  amd64: "lib64/ld-linux-x86-64.so.2",
  arm64: "lib/ld-linux-aarch64.so.1",
} as const;

/** Copies the loader and every shared library that the programs need into the image's `root`. */
export async function placeLibraries(
  programs: readonly string[],
  architecture: Architecture,
  root: string,
): Promise<void> {
  const debian = await debianFor(architecture);
  const loader = LOADERS[architecture];
  await place(await loaderIn(debian, architecture), join(root, loader));
  for (const program of programs) {
    for (const library of await librariesOf(program, architecture, debian)) {
      await place(join(debian, library), join(root, library));
    }
  }
}

function debianFor(architecture: Architecture): Promise<string> {
  const key = [LIBRARY_SUITE, JSON.stringify(LIBRARY_PACKAGES), architecture];
  return cached(`libraries-${architecture}`, key, async (dir) => {
    await step(`fetching Debian's C library for ${architecture}`, () =>
      fetchPackages(dir, LIBRARY_PACKAGES, { suite: LIBRARY_SUITE, architecture }),
    );
  });
}

/** The paths, inside `debian`, of what the loader itself would load for a program. */
async function librariesOf(
  program: string,
  architecture: Architecture,
  debian: string,
): Promise<string[]> {
  const path = (await libraryDirectories(debian)).join(":");
  const loader = await loaderIn(debian, architecture);
  const list = [loader, "--library-path", path, "--list", program];
  const [first = "", ...args] = [...(await emulation(architecture, debian)), ...list];
  const listed = await run(first, args);
  const found = [...listed.matchAll(/^\s+lib\S+ => (.*?)(?: \(0x\w+\))?$/gm)];
  return found.map(([line, library = ""]) => {
    if (!library.startsWith(`${debian}/`)) throw new Error(`${program} needs more:${line}`);
    return relative(debian, library);
  });
}

async function libraryDirectories(debian: string): Promise<string[]> {
  const usr = await debianLibraries(debian);
  return [usr, join(debian, relative(join(debian, "usr"), usr))];
}

/** The link at the loader's well-known path may be absolute: the file itself is beside libc. */
async function loaderIn(debian: string, architecture: Architecture): Promise<string> {
  const [, libraries = ""] = await libraryDirectories(debian);
  return join(libraries, LOADERS[architecture].split("/").at(-1) ?? "");
}

async function place(source: string, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  await copyFile(await realpath(source), target);
}

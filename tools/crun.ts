import { readdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { cached } from "./cache.ts";
import { debianLibraries, fetchPackages } from "./debian.ts";
import { step } from "./progress.ts";
import { run } from "./run.ts";

/** The first release whose crun keeps a compiled seccomp filter for the next container. */
const SUITE = "trixie";
const PACKAGES =
  "crun libcap2 libseccomp2 libsystemd0 libyajl2 libc6 patchelf libstdc++6 libgcc-s1".split(" ");

/** Where crun looks for the loader of its C library: a link to `crunLoader` has to be there. */
export const CRUN_LOADER = "/run/crun-loader";

/** A crun that may be newer than this machine's Debian, and that brings its own C library along. */
export async function crunRoot(): Promise<string> {
  return cached(
    "crun",
    [SUITE, JSON.stringify(PACKAGES), CRUN_LOADER, process.arch],
    async (dir) => {
      await step(`fetching crun from Debian ${SUITE}`, async () => {
        await fetchPackages(dir, PACKAGES, { suite: SUITE });
        await standAlone(dir);
      });
    },
  );
}

/** The loader of the C library in such a directory. */
export async function crunLoader(root: string): Promise<string> {
  const libraries = await debianLibraries(root);
  const loader = (await readdir(libraries)).find((name) => /^ld-linux.*\.so\.\d+$/.test(name));
  if (loader === undefined) throw new Error(`no loader in ${libraries}`);
  return join(libraries, loader);
}

/** Neither the machine's libraries nor LD_LIBRARY_PATH: that is meant for the other programs. */
async function standAlone(root: string): Promise<void> {
  const libraries = await debianLibraries(root);
  const programs = join(root, "usr/bin");
  const patchelf = ["--library-path", libraries, join(programs, "patchelf")];
  const libraryPath = ["--force-rpath", "--set-rpath", `$ORIGIN/${relative(programs, libraries)}`];
  const changes = ["--set-interpreter", CRUN_LOADER, ...libraryPath];
  await run(await crunLoader(root), [...patchelf, ...changes, join(programs, "crun")]);
}

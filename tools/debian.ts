import { chmod, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { cached } from "./cache.ts";
import { ToolError, step } from "./progress.ts";
import { run } from "./run.ts";

/** The node's container runtime, and every library of theirs that a small Debian may lack. */
const PACKAGES = (
  "containerd crun containernetworking-plugins busybox-static nftables " +
  "libnftables1 libnftnl11 libmnl0 libjansson4 libxtables12 libgmp10 " +
  "libedit2 libbsd0 libmd0 libtinfo6 libseccomp2 libcap2 libyajl2"
).split(" ");

/**
 * Debian packages unpacked into the cache and used from there: nothing is installed on the machine,
 * no service is started by a package script.
 */
export async function debianRoot(): Promise<string> {
  return unpackedPackages("debian", PACKAGES);
}

/** Any other packages in the same way, in a directory of their own. */
export async function unpackedPackages(name: string, packages: readonly string[]) {
  const release = await run("sh", ["-c", ". /etc/os-release && echo $ID $VERSION_ID"]).catch(
    () => "",
  );
  return cached(name, [JSON.stringify(packages), release, process.arch], async (dir) => {
    await step(`fetching ${packages.length} Debian packages`, () => fetchPackages(dir, packages));
  });
}

/** Where the shared libraries of such a directory are. */
export async function debianLibraries(root: string): Promise<string> {
  const lib = join(root, "usr/lib");
  const triplet = (await readdir(lib)).find((name) => name.endsWith("-linux-gnu"));
  if (triplet === undefined) throw new Error(`no *-linux-gnu directory in ${lib}`);
  return join(lib, triplet);
}

async function fetchPackages(dir: string, packages: readonly string[]): Promise<void> {
  const debs = join(dir, "debs");
  await mkdir(debs);
  await chmod(dir, 0o755);
  const download = () => run("apt-get", ["download", "-q", ...packages], { cwd: debs });
  await download().catch(async (error: unknown) => {
    if (error instanceof ToolError) {
      throw new ToolError("Debian (or a relative with apt-get) is needed for containerd and crun");
    }
    await run("apt-get", ["update", "-q"]); // package lists missing or older than the archive
    await download();
  });
  for (const deb of await readdir(debs)) await run("dpkg-deb", ["-x", join(debs, deb), dir]);
  await rm(debs, { recursive: true });
}

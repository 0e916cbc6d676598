import { chmod, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cached } from "./cache.ts";
import { ToolError, step } from "./progress.ts";
import { run } from "./run.ts";

/** The node's container runtime, and every library of theirs that a small Debian may lack. */
const PACKAGES = (
  "containerd runc libseccomp2 containernetworking-plugins busybox-static nftables " +
  "libnftables1 libnftnl11 libmnl0 libjansson4 libxtables12 libgmp10 " +
  "libedit2 libbsd0 libmd0 libtinfo6"
).split(" ");
const DEBIAN_MIRROR = "http://deb.debian.org/debian";
const DEBIAN_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg";

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

/** A release of Debian, and an architecture where it is not this machine's. */
export interface DebianRelease {
  readonly suite: string;
  readonly architecture?: string;
}

/** Packages of this machine's release, or of another one. */
export async function fetchPackages(
  dir: string,
  packages: readonly string[],
  release?: DebianRelease,
): Promise<void> {
  const debs = join(dir, "debs");
  await mkdir(debs);
  await chmod(dir, 0o755);
  const options = release === undefined ? [] : await optionsFor(release, debs);
  const aptGet = (...args: readonly string[]) =>
    run("apt-get", [...options, "-q", ...args], { cwd: debs });
  const download = () => aptGet("download", ...packages);
  await download().catch(async (error: unknown) => {
    if (error instanceof ToolError) {
      throw new ToolError("Debian (or a relative with apt-get) is needed for containerd and crun");
    }
    await aptGet("update"); // package lists missing or older than the archive
    await download();
  });
  for (const deb of await readdir(debs)) {
    if (deb.endsWith(".deb")) await run("dpkg-deb", ["-x", join(debs, deb), dir]);
  }
  await rm(debs, { recursive: true });
}

/** The options by which apt-get takes packages of another release and keeps the machine's lists. */
async function optionsFor({ suite, architecture }: DebianRelease, dir: string): Promise<string[]> {
  const known = ["indextargets", "--format", "$(REPO_URI) $(LABEL)", "Created-By: Packages"];
  const mirrors = await run("apt-get", known).catch(() => "");
  const mirror = /^(\S+) Debian$/m.exec(mirrors)?.[1] ?? DEBIAN_MIRROR;
  const sources = join(dir, "sources.list");
  await writeFile(sources, `deb [signed-by=${DEBIAN_KEYS}] ${mirror} ${suite} main\n`);
  const lists = join(dir, "lists");
  await mkdir(lists);
  const settings = {
    ...(architecture === undefined ? {} : { "APT::Architecture": architecture }),
    "Dir::Etc::SourceList": sources,
    "Dir::Etc::SourceParts": "-",
    "Dir::State::Lists": lists,
    "Dir::Cache": dir,
  };
  return Object.entries(settings).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
}

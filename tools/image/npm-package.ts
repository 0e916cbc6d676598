import { createHash } from "node:crypto";
import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { cached } from "../cache.ts";
import { ToolError, step } from "../progress.ts";
import { run } from "../run.ts";
import lock from "../../package-lock.json" with { type: "json" };
import { NPM_CPUS, OWN_ARCHITECTURE } from "./architecture.ts";
import type { Architecture } from "./architecture.ts";

const MODULES = join(import.meta.dirname, "../../node_modules");

interface Locked {
  readonly version: string;
  readonly integrity: string;
}

/**
 * The directory of a package that exists once per architecture. npm installs only the package for
 * this machine; that of another architecture is fetched in the version of the lock file, and its
 * bytes must have the lock file's digest.
 */
export async function npmPackage(name: string, architecture: Architecture): Promise<string> {
  const own = join(MODULES, name);
  if (architecture === OWN_ARCHITECTURE) return own;
  const { version, integrity } = lockedPackage(name);
  const label = `npm-${name.replaceAll(/\W+/g, "-")}`;
  return cached(label, [name, version, integrity], async (dir) => {
    await step(`fetching ${name} ${version}`, () =>
      fetchPackage(name, { version, integrity }, dir),
    );
  });
}

/** Pins the contents of a package: part of every key under which they are cached. */
export function lockedPackage(name: string): Locked {
  const packages: Readonly<Record<string, Partial<Locked>>> = lock.packages;
  const { version, integrity } = packages[`node_modules/${name}`] ?? {};
  if (version === undefined || integrity === undefined) {
    throw new Error(`package-lock.json has no ${name}`);
  }
  return { version, integrity };
}

export function nodePackage(architecture: Architecture): string {
  return `node-linux-${NPM_CPUS[architecture]}`;
}

async function fetchPackage(name: string, locked: Locked, dir: string): Promise<void> {
  const packed = join(dir, "packed");
  await mkdir(packed);
  const target = ["--pack-destination", packed, "--loglevel=error"];
  const file = (await run("npm", ["pack", `${name}@${locked.version}`, ...target])).trim();
  const archive = join(packed, file);
  const [algorithm = "", expected] = locked.integrity.split(/-(.*)/s);
  const found = createHash(algorithm)
    .update(await readFile(archive))
    .digest("base64");
  if (found !== expected) {
    throw new ToolError(`${name} ${locked.version} is not what package-lock.json pins: ${found}`);
  }
  await run("tar", ["-xf", archive, "-C", dir, "--strip-components=1"]);
  await rm(packed, { recursive: true });
}

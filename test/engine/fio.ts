import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { unpackedPackages } from "../../tools/debian.ts";

const run = promisify(execFile);

/** fio, and the libraries of the many things that it could measure. */
const PACKAGES = (
  "fio libaio1 libargon2-1 libboost-iostreams1.74.0 libboost-thread1.74.0 libcryptsetup12 " +
  "libdaxctl1 libdevmapper1.02.1 libfmt9 libgfapi0 libgfrpc0 libgfxdr0 libglusterfs0 " +
  "libibverbs1 libicu72 " +
  "libjson-c5 libkmod2 libnbd0 libndctl6 libnl-3-200 libnl-route-3-200 libnuma1 " +
  "libpmem1 libpmemblk1 librados2 librbd1 librdmacm1 libtirpc3 libxml2"
).split(" ");

interface FioResult {
  readonly jobs: readonly FioJob[];
}

interface FioJob {
  readonly error: number;
  readonly read: { readonly io_bytes: number };
  readonly write: { readonly io_bytes: number };
}

export type FioOptions = Readonly<Record<string, string | number>> & { readonly numjobs: number };

/** The arguments of execFile() or spawn() that run it. */
export async function fioCommand(directory: string, options: FioOptions) {
  const root = await unpackedPackages("fio", PACKAGES);
  const all = {
    name: "job",
    directory,
    ioengine: "psync",
    fallocate: "none",
    verify: "crc32c",
    verify_fatal: 1,
    verify_state_save: 0, // it would be a file where the test runs
    "output-format": "json",
    ...options,
  };
  const args = Object.entries(all).map(([name, value]) => `--${name}=${value}`);
  const libraries = globSync("{lib,usr/lib}/*-linux-gnu{,/ceph}", { cwd: root });
  const env = { LD_LIBRARY_PATH: libraries.map((path) => join(root, path)).join(":") };
  return [join(root, "usr/bin/fio"), args, { env }] as const;
}

/** Fails when a job saw an error, or a block that is not as it was written. */
export async function fio(directory: string, options: FioOptions): Promise<readonly FioJob[]> {
  const [program, args, { env }] = await fioCommand(directory, options);
  const { stdout } = await run(program, args, { env, maxBuffer: 16 << 20 });
  const { jobs } = JSON.parse(stdout) as FioResult;
  assert.equal(jobs.length, options.numjobs);
  for (const { error } of jobs) assert.equal(error, 0);
  return jobs;
}

import { mkdir, writeFile } from "node:fs/promises";
import { globSync } from "node:fs";
import { join } from "node:path";
import { VERSION } from "../../../src/base/version.ts";
import { bundle, BUNDLE_ENTRY } from "../../bundle.ts";
import { unpackedPackages } from "../../debian.ts";
import { programs } from "../../programs.ts";
import { run } from "../../run.ts";
import type { S3Access } from "../../stack/s3-server.ts";
import { BUCKET } from "./arena.ts";
import { OURS } from "./figure-names.ts";

/** A program that mounts the bucket at a directory, in the foreground. */
export interface Contender {
  readonly name: string;
  readonly version: string;
  readonly env: Readonly<Record<string, string>>;
  command(directory: string): readonly [program: string, ...args: string[]];
}

/** All of them, ours first. `dir` is for the files that they need. */
export async function contenders(access: S3Access, dir: string): Promise<Contender[]> {
  return [await ourEngine(access), await s3fs(access, dir), await rclone(access, dir)];
}

let bundling: Promise<void> | undefined;

/** Ours as it is shipped: the bundle, not the sources. It is made once. */
export async function ourEngine(
  access: S3Access,
  options: readonly string[] = [],
): Promise<Contender> {
  bundling ??= bundle();
  await bundling;
  return bundledEngine(access, { name: OURS, entry: BUNDLE_ENTRY, options });
}

/** An engine of ours from any bundle. */
export function bundledEngine(
  access: S3Access,
  { name, entry, options = [] }: { name: string; entry: string; options?: readonly string[] },
): Contender {
  const all = ["--allow-overwrite", ...options];
  return {
    name,
    version: VERSION,
    env: {
      AWS_ACCESS_KEY_ID: access.accessKeyId,
      AWS_SECRET_ACCESS_KEY: access.secretAccessKey,
      AWS_ENDPOINT_URL: access.endpoint,
    },
    command: (at) => [process.execPath, entry, "mount", BUCKET, at, ...all],
  };
}

/** s3fs of Debian, with its default options: it needs only its own library besides the system's. */
async function s3fs(access: S3Access, dir: string): Promise<Contender> {
  const root = await unpackedPackages("s3fs", ["s3fs", "libfuse2"]);
  const libraries = globSync("{lib,usr/lib}/*-linux-gnu", { cwd: root });
  const program = join(root, "usr/bin/s3fs");
  const env = { LD_LIBRARY_PATH: libraries.map((path) => join(root, path)).join(":") };
  const said = await run(program, ["--version"], { env });
  const secrets = join(dir, "s3fs-passwd");
  await writeFile(secrets, `${access.accessKeyId}:${access.secretAccessKey}\n`, { mode: 0o600 });
  const options = `passwd_file=${secrets},url=${access.endpoint},use_path_request_style`;
  return {
    name: "s3fs",
    version: /V(\d[\d.]*)/.exec(said)?.[1] ?? said,
    env,
    command: (at) => [program, BUCKET, at, "-f", "-o", options],
  };
}

/**
 * `rclone mount` with its default flags, all of the S3 server by environment. It mounts by calling
 * Debian's fusermount3, as bazil.org/fuse does.
 */
async function rclone(access: S3Access, dir: string): Promise<Contender> {
  const program = join(await programs("rclone"), "rclone");
  const fuse = await unpackedPackages("fuse3", ["fuse3"]);
  const home = join(dir, "rclone-home");
  await mkdir(home, { recursive: true });
  const env = {
    PATH: `${join(fuse, "bin")}:${process.env["PATH"]}`,
    HOME: home,
    RCLONE_S3_PROVIDER: "Other",
    RCLONE_S3_ENDPOINT: access.endpoint,
    RCLONE_S3_REGION: access.region,
    RCLONE_S3_ACCESS_KEY_ID: access.accessKeyId,
    RCLONE_S3_SECRET_ACCESS_KEY: access.secretAccessKey,
  };
  const said = await run(program, ["version"], { env });
  return {
    name: "rclone",
    version: /v(\d[\d.]*)/.exec(said)?.[1] ?? said,
    env,
    command: (at) => [program, "mount", `:s3:${BUCKET}`, at, "--config", ""],
  };
}

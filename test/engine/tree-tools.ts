import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { unpackedPackages } from "../../tools/debian.ts";

const run = promisify(execFile);

/** Programs that a small Debian lacks, with the libraries that they may find missing. */
const PACKAGES =
  "git rsync libpcre2-8-0 zlib1g libpopt0 libxxhash0 libzstd1 liblz4-1 libacl1 libssl3".split(" ");

/** Runs git or rsync as the release of this machine ships it. Fails when it says anything. */
export async function runTreeTool(
  program: "git" | "rsync",
  args: readonly string[],
): Promise<string> {
  const root = await unpackedPackages("tree-tools", PACKAGES);
  const libraries = globSync("{lib,usr/lib}/*-linux-gnu", { cwd: root });
  const env = {
    PATH: process.env["PATH"],
    LD_LIBRARY_PATH: libraries.map((path) => join(root, path)).join(":"),
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_TEMPLATE_DIR: join(root, "usr/share/git-core/templates"),
    GIT_EXEC_PATH: join(root, "usr/lib/git-core"),
  };
  const { stdout, stderr } = await run(join(root, "usr/bin", program), args, { env });
  if (stderr !== "") throw new Error(`${program}: ${stderr}`);
  return stdout;
}

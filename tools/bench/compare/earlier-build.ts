import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../run.ts";

const ROOT = join(import.meta.dirname, "../../..");

/**
 * Builds the program of an earlier commit below `dir`, with the packages of this tree, and gives
 * the file to start. A commit with other packages needs a clone of its own.
 */
export async function buildEarlier(commit: string, dir: string): Promise<string> {
  const sources = join(dir, "earlier");
  await mkdir(sources);
  const archive = join(dir, "earlier.tar");
  await run("git", ["-C", ROOT, "archive", `--output=${archive}`, commit]);
  await run("tar", ["-xf", archive, "-C", sources]);
  await symlink(join(ROOT, "node_modules"), join(sources, "node_modules"));
  await run(process.execPath, ["tools/bundle.ts"], { cwd: sources });
  return join(sources, "build/bundle/s3csi.cjs");
}

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

/** One per user, shared by every clone. Safe to delete at any time: it is made again. */
export const CACHE_ROOT = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "s3csi");

/**
 * The directory `name` as it is defined by `key`, made on the first call. It appears by rename,
 * whole or not at all, so a killed build leaves nothing that looks finished and two clones can't
 * clash.
 */
export async function cached(
  name: string,
  key: readonly (string | Buffer)[],
  make: (dir: string) => Promise<void>,
): Promise<string> {
  const hash = createHash("sha256");
  for (const part of key) hash.update(part).update("\0");
  const finished = join(CACHE_ROOT, `${name}-${hash.digest("hex").slice(0, 16)}`);
  if (existsSync(finished)) return finished;

  await mkdir(CACHE_ROOT, { recursive: true });
  const draft = await mkdtemp(join(CACHE_ROOT, `.${name}-`));
  try {
    await make(draft);
    await rename(draft, finished).catch((error: unknown) => {
      if (!existsSync(finished)) throw error; // another clone was faster: use its result
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return finished;
}

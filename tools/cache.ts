import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

/** One per user, shared by every clone. Safe to delete at any time: it is made again. */
const CACHE_ROOT = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "s3csi");

const DRAFT_PREFIX = ".";
/** No build takes that long: an older draft was left by one that was killed. */
const DRAFT_AGE_MAX_MS = 24 * 3_600_000;

/**
 * The directory `name` as it is defined by `key`, made on the first call. It appears by rename,
 * whole or not at all, so a killed build leaves nothing that looks finished and two clones can't
 * clash.
 */
export async function cached(
  name: string,
  key: readonly (string | Buffer)[],
  make: (dir: string) => Promise<void>,
  root = CACHE_ROOT,
): Promise<string> {
  const hash = createHash("sha256");
  for (const part of key) hash.update(part).update("\0");
  const finished = join(root, `${name}-${hash.digest("hex").slice(0, 16)}`);
  if (existsSync(finished)) return finished;

  await mkdir(root, { recursive: true });
  await removeOldDrafts(root);
  const draft = await mkdtemp(join(root, `${DRAFT_PREFIX}${name}-`));
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

async function removeOldDrafts(root: string): Promise<void> {
  for (const name of await readdir(root)) {
    if (!name.startsWith(DRAFT_PREFIX)) continue;
    const draft = join(root, name);
    const changed = await stat(draft).catch(() => undefined); // finished since the listing
    if (changed === undefined || Date.now() - changed.mtimeMs < DRAFT_AGE_MAX_MS) continue;
    await rm(draft, { recursive: true, force: true });
  }
}

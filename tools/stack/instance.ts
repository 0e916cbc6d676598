import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { unmount } from "../../src/sys/fuse-mount.ts";
import { readMounts } from "../../src/sys/mount-info.ts";
import { ToolError } from "../progress.ts";
import { removeCgroups } from "./cgroups.ts";
import { withLock } from "./lock.ts";
import { run } from "../run.ts";
import { killIfThere, processesOf, startTimeOf, waitUntilGone } from "./processes.ts";

/** Everything that a stack writes is below this: one directory per running instance. */
export const STATE_ROOT = `/var/tmp/s3csi-stack-${process.getuid?.() ?? 0}`;
/** Every process of an instance carries its directory in this variable, and is found by it. */
export const MARK = "S3CSI_STACK";

const SLOT_MAX = 250;
const OWNER = "owner.json";
const DRAFT = ".claim-";
const DRAFT_NAME = /^\.claim-(\d+)-(\d+)-/;

/**
 * A claimed directory, and a loopback address that no other instance uses: no port is ever guessed.
 */
export interface Instance extends AsyncDisposable {
  readonly name: string;
  readonly dir: string;
  readonly address: string;
}

interface Owner {
  readonly pid: number;
  readonly startTime: string;
}

/** Claims the next free slot, after clearing away what killed runners have left. */
export async function claimSlot(): Promise<Instance> {
  await reapDead();
  for (let slot = 1; slot <= SLOT_MAX; slot += 1) {
    const instance = await claim(`slot-${slot}`, `127.77.0.${slot}`);
    if (instance !== undefined) return instance;
  }
  throw new ToolError(`all ${SLOT_MAX} stack slots in ${STATE_ROOT} are taken`);
}

/** Claims a name that only one instance may have at a time. */
export async function claimName(name: string): Promise<Instance> {
  await reapDead();
  const instance = await claim(name, "127.77.1.1");
  if (instance !== undefined) return instance;
  const { pid } = await ownerOf(join(STATE_ROOT, name));
  throw new ToolError(
    `a ${name} is already running on this machine (process ${pid}): ` +
      "only one at a time; `make down` stops one that `make up` started",
  );
}

/** The claim is a rename of a directory that names its owner already: no half-made claim exists. */
async function claim(name: string, address: string): Promise<Instance | undefined> {
  const dir = join(STATE_ROOT, name);
  const owner = await thisProcess();
  const draft = draftOf(owner);
  await mkdir(draft, { recursive: true, mode: 0o755 });
  await writeFile(join(draft, OWNER), JSON.stringify(owner));
  try {
    await rename(draft, dir);
  } catch (error) {
    await rm(draft, { recursive: true });
    if (["EEXIST", "ENOTEMPTY"].includes((error as NodeJS.ErrnoException).code ?? "")) {
      return undefined;
    }
    throw error;
  }
  return { name, dir, address, [Symbol.asyncDispose]: () => remove(dir) };
}

async function thisProcess(): Promise<Owner> {
  return { pid: process.pid, startTime: (await startTimeOf(process.pid)) ?? "" };
}

/** A name that nobody else uses, and that tells whose it is. */
function draftOf({ pid, startTime }: Owner): string {
  return join(STATE_ROOT, `${DRAFT}${pid}-${startTime}-${randomUUID()}`);
}

/** The host's end of an instance's network, where it has one; at most 15 characters. */
export function linkOf(instanceName: string): string {
  return `s3csi-${instanceName}`.slice(0, 15);
}

/**
 * Clears away the instances whose runner is gone, however it ended. One at a time on a machine: a
 * second one could take an instance for dead that was cleared and claimed anew meanwhile.
 */
export async function reapDead(): Promise<void> {
  await withLock(STATE_ROOT, async () => {
    for (const name of await readdir(STATE_ROOT).catch(() => [])) {
      const dir = join(STATE_ROOT, name);
      const owner = await ownerOf(dir).catch(() => undefined); // ended since the listing
      if (owner === undefined || owner.startTime === (await startTimeOf(owner.pid))) continue;
      await remove(dir);
    }
  });
}

/** The directory leaves its name last and at once: what is claimed anew is never touched. */
async function remove(dir: string): Promise<void> {
  const mark = `${MARK}=${dir}`;
  for (const pid of await processesOf(mark)) killIfThere(pid);
  await waitUntilGone(() => processesOf(mark));
  await removeLink(linkOf(basename(dir)));
  await removeCgroups(basename(dir));
  unmountBelow(dir);
  const nameless = draftOf(await thisProcess());
  await rename(dir, nameless);
  await rm(nameless, { recursive: true, force: true });
}

/** A killed runner leaves dead mounts behind, and no directory goes with a mount in it. */
function unmountBelow(dir: string): void {
  const below = readMounts().filter(({ mountPoint }) => mountPoint.startsWith(`${dir}/`));
  for (const { mountPoint } of below.toReversed()) unmount(mountPoint, { detach: true });
}

/** It goes with its namespace; but a connection that was cut with data on its way keeps that. */
async function removeLink(link: string): Promise<void> {
  const path = `/sys/class/net/${link}`;
  if (existsSync(path)) await run("ip", ["link", "delete", link]).catch(() => {}); // gone meanwhile
  await waitUntilGone(async () => (existsSync(path) ? [path] : []));
}

async function ownerOf(dir: string): Promise<Owner> {
  const [, pid, startTime = ""] = DRAFT_NAME.exec(basename(dir)) ?? [];
  if (pid !== undefined) return { pid: Number(pid), startTime };
  return JSON.parse(await readFile(join(dir, OWNER), "utf8")) as Owner;
}

import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { SoakCalls } from "./soak-calls.ts";
import type { OpenedFile } from "./soak-calls.ts";
import { isMappable } from "./shared-mapping.ts";
import { sharedMs } from "./soak-report.ts";
import { Random } from "./soak-random.ts";
import { claimedBy, contentOf, differenceAt, HEADER_BYTES } from "./soak-version.ts";
import type { Version } from "./soak-version.ts";

/**
 * A program of the soak runs in a process of its own: random work on a mount until its time is
 * over, reported line by line on stdout. Arguments: mount point, its device, name, seed, end.
 */
const [dir = "", device = "", NAME = "", seed = "", endAtMs = ""] = process.argv.slice(2);
const random = new Random(Number(seed));
const calls = new SoakCalls();
const KIB = 1024;
const PART_BYTES = 5 * KIB * KIB;
const SHARED_FILES = 16;
const TREE_FILES = 5;
const RANDOM_READS = 10;
/** How long a reader may leave its file alone between two reads. */
const PAUSE_MAX_MS = 300;
let versions = 0;

function newVersion(file: string, sizeBytes: number): Version {
  return { file, writer: NAME, number: ++versions, sizeBytes };
}

/** Mostly few bytes; every tenth file is around the size of a part, or of several. */
function anySize(): number {
  if (random.chance(0.06)) return 0;
  if (random.chance(0.06)) return 1;
  if (random.chance(0.1)) {
    return Math.max(1, PART_BYTES * random.between(1, 4) + random.pick([-1, 0, 1, 77_777]));
  }
  return random.between(2, random.pick([200, 20 * KIB, 300 * KIB, 2000 * KIB]));
}

/** Some are shared by all programs, in the top directory or below; some are this one's alone. */
function anyFile(): string {
  if (random.chance(0.35)) return `own-${NAME.split(".")[0]}-${random.between(0, 3)}`;
  const n = random.between(0, SHARED_FILES);
  return n % 4 === 0 ? `shared-directory-${n % 8}/file-${n}` : `file-${n}`;
}

async function makeParent(file: string): Promise<void> {
  const at = file.lastIndexOf("/");
  if (at !== -1) await calls.other("mkdir", file.slice(0, at), (path) => fs.mkdirSync(path));
}

/** Writes pieces of random sizes, to `endBytes` at most. Undefined: one of them failed. */
async function append(opened: OpenedFile, content: Buffer, endBytes: number) {
  const pieceMax = random.pick([1 * KIB, 64 * KIB, 1024 * KIB, 3000 * KIB]);
  const least = Math.ceil(endBytes / 40);
  while (opened.takenBytes < endBytes) {
    const piece = least + random.between(0, pieceMax);
    const end = Math.min(endBytes, opened.takenBytes + piece);
    if (!(await calls.write(opened, content.subarray(opened.takenBytes, end)))) return undefined;
    if (random.chance(0.02)) await sleep(random.between(0, 50));
  }
  return opened.takenBytes;
}

async function writeFile(file: string, sizeBytes: number): Promise<void> {
  await makeParent(file);
  const version = newVersion(file, sizeBytes);
  const content = contentOf(version);
  const opened = await calls.open(version, random.chance(0.3));
  if (opened === undefined) return;
  const middle = random.between(0, sizeBytes + 1);
  const isWritten = (await append(opened, content, middle)) !== undefined;
  if (isWritten) await interlude(opened, content);
  if (isWritten && !opened.isAstray) await append(opened, content, sizeBytes);
  if (random.chance(0.1)) await calls.fsync(opened);
  await calls.close(opened, random.chance(0.4));
}

/** Programs do such things with a file that is half written. */
async function interlude(opened: OpenedFile, content: Buffer): Promise<void> {
  const what = random.between(0, 16);
  const { takenBytes } = opened;
  if (what === 0 && content.length < PART_BYTES) await calls.fsync(opened);
  if (what === 1) inherit(opened);
  if (what === 2 && takenBytes > 0) {
    const at = random.pick([0, Math.max(0, takenBytes - 1), takenBytes + 1]);
    await calls.writeAstray(opened, content.subarray(0, random.between(1, 5000)), at);
  }
  if (what === 3) {
    calls.abandon(opened);
    process.kill(process.pid, "SIGKILL");
  }
  if (what === 4) await sleep(random.between(0, PAUSE_MAX_MS));
}

/** Another process gets the descriptor and closes it: that is not the end of this file. */
function inherit({ fd }: OpenedFile): void {
  spawnSync("true", { stdio: ["ignore", "ignore", "ignore", fd] });
}

async function readFile(file: string): Promise<void> {
  const reading = calls.read(file);
  const openedFrom = sharedMs();
  let fd: number;
  try {
    fd = fs.openSync(file, "r");
  } catch (error) {
    reading.failed(error, [openedFrom, sharedMs()]);
    return;
  }
  const openedAt = [openedFrom, sharedMs()] as const;
  try {
    const { sizeBytes, version, body } = await contentIn(fd, file);
    const named = version === undefined ? { body: body.toString("hex") } : { version };
    reading.saw({ openedAt, sizeBytes, ...named });
  } catch (error) {
    reading.failed(error, openedAt);
  } finally {
    fs.closeSync(fd);
  }
}

/** All of it in order, or the beginning and pieces at random. All bytes are of one version. */
async function contentIn(fd: number, file: string) {
  const head = Buffer.alloc(HEADER_BYTES);
  const body = head.subarray(0, fs.readSync(fd, head, 0, HEADER_BYTES, 0));
  if (body.length < HEADER_BYTES) return { sizeBytes: body.length, version: undefined, body };
  const version = claimedBy(body);
  if (version === undefined) {
    calls.odd("a body of no version is read", `${file}: ${body.toString("latin1")}`);
    return { sizeBytes: body.length, version, body };
  }
  const content = contentOf(version);
  const { size } = fs.fstatSync(fd);
  const check = (at: number, bytes: number) => {
    const piece = Buffer.alloc(bytes);
    const count = fs.readSync(fd, piece, 0, bytes, at);
    const where = differenceAt(content, at, piece.subarray(0, count));
    const of = `${version.writer}#${version.number}`;
    if (where !== undefined)
      calls.odd("a mixture is read", `${file}: byte ${where} is not of ${of}`);
    return count;
  };
  if (random.chance(0.3)) {
    for (let n = 0; n < RANDOM_READS; n++) {
      check(random.between(0, size), random.between(1, 200 * KIB));
      if (random.chance(0.1)) await sleep(random.between(0, PAUSE_MAX_MS));
    }
    return { sizeBytes: size, version, body };
  }
  const pieceBytes = random.pick([16 * KIB, 128 * KIB, 1024 * KIB]);
  for (let at = 0; ;) {
    const count = check(at, pieceBytes);
    at += count;
    if (count === 0) return { sizeBytes: at, version, body };
    if (random.chance(0.02)) await sleep(random.between(0, PAUSE_MAX_MS));
  }
}

/** A tree of this program's own, made and removed again as `rm -r` does it. */
async function tree(): Promise<void> {
  const top = `tree-${NAME}-${versions}`;
  await calls.other("mkdir", top, (path) => fs.mkdirSync(path));
  for (let n = 0; n < TREE_FILES; n++) {
    await writeFile(n % 2 === 0 ? `${top}/${n}` : `${top}/below/${n}`, random.between(1, 5000));
  }
  await removeTree(top);
}

/** True when nothing was in the way: then the directory itself must go too. */
async function removeTree(path: string): Promise<boolean> {
  let isEmpty = true;
  let entries: fs.Dirent[] = [];
  const read = (at: string) => void (entries = fs.readdirSync(at, { withFileTypes: true }));
  if ((await calls.other("readdir", path, read)) !== undefined) return false;
  for (const entry of entries) {
    const at = `${path}/${entry.name}`;
    const removed = entry.isDirectory()
      ? await removeTree(at)
      : (await calls.unlink(at)) === undefined;
    isEmpty &&= removed;
  }
  const errno = await calls.other("rmdir", path, (at) => fs.rmdirSync(at));
  // A directory of which every object was deleted is empty, or has ended with the last of them.
  const isRefused = isEmpty && (errno === "EPERM" || errno === "ENOTEMPTY");
  if (isRefused) calls.odd("an emptied directory is not removed", `${path}: ${errno}`);
  return errno === undefined;
}

async function map(file: string): Promise<void> {
  await calls.other("mmap", file, (path) => {
    const fd = fs.openSync(path, "r+");
    try {
      if (isMappable(fd)) calls.odd("a writable shared mapping is granted", file);
    } finally {
      fs.closeSync(fd);
    }
  });
}

async function smallFiles(): Promise<void> {
  for (let n = 0; n < 8; n++) {
    await writeFile(`small-${NAME.split(".")[0]}/file-${random.between(0, 12)}`, 100 + n);
  }
}

const ACTIONS: readonly [share: number, act: () => Promise<unknown>][] = [
  [34, () => writeFile(anyFile(), anySize())],
  [36, () => readFile(anyFile())],
  [8, () => calls.unlink(anyFile())],
  [8, () => calls.other("stat", anyFile(), (path) => fs.statSync(path))],
  [4, () => calls.other("readdir", ".", (path) => fs.readdirSync(path))],
  [4, tree],
  [2, () => map(anyFile())],
  [4, smallFiles],
];
const SHARES = ACTIONS.reduce((sum, [share]) => sum + share, 0);

async function act(): Promise<void> {
  let left = random.between(0, SHARES);
  for (const [share, action] of ACTIONS) {
    left -= share;
    if (left < 0) return void (await action());
  }
}

// The signal interrupts the system call that is under way, and nothing else.
process.on("SIGUSR2", () => undefined);
process.chdir(dir);
// A mount that has ended leaves a plain directory: nothing that is done there would mean anything.
if (fs.statSync(".").dev !== Number(device)) process.exit(0);
while (sharedMs() < Number(endAtMs)) await act();

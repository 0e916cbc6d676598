import * as fs from "node:fs";
import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import { tryLockFile } from "../sys/file-lock.ts";
import { HEADER_BYTES } from "./piece-file.ts";
import { parseFileName } from "./piece-index.ts";
import type { Piece } from "./piece-index.ts";

const NAME = "s3csi-cache";
const LOCK = "lock";
/** The directory itself, before it grows. */
const BASE_BYTES = 16 * 1024;
/** What a name adds to the directory, amply. */
const ENTRY_BYTES = 256;

export interface FoundPieces {
  /** The one used longest ago first. */
  readonly pieces: readonly Piece[];
  readonly usedBytes: number;
}

/** A directory of ours in the one that was given: locked, and nobody else can look into it. */
export class CacheDirectory {
  readonly path: string;
  /** What it takes when it is empty. */
  readonly baseBytes: number;
  readonly #blockBytes: number;
  readonly #lockFd: number;

  private constructor(path: string, lockFd: number) {
    this.path = path;
    this.#lockFd = lockFd;
    this.baseBytes = Math.max(BASE_BYTES, fs.statSync(path).blocks * 512); // it may have grown
    this.#blockBytes = Math.max(4096, fs.statfsSync(path).bsize);
  }

  /** Every failure is the option's: it says why the directory is of no use. */
  static open(given: string): CacheDirectory {
    try {
      const path = join(given, NAME);
      makePrivate(path);
      const lockFd = fs.openSync(join(path, LOCK), "a", 0o600);
      if (tryLockFile(lockFd)) return new CacheDirectory(path, lockFd);
      fs.closeSync(lockFd);
      throw new Failure("conflict", `--cache ${given}: another mount uses it`);
    } catch (error) {
      if (error instanceof Failure && error.kind === "conflict") throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new Failure("invalid", `--cache ${given}: can't be used: ${reason}`, error);
    }
  }

  close(): void {
    fs.closeSync(this.#lockFd);
  }

  /** What a file of that size takes at least: disk blocks, and its place in the directory. */
  chargeOf(fileBytes: number): number {
    return Math.ceil(fileBytes / this.#blockBytes) * this.#blockBytes + ENTRY_BYTES;
  }

  /** What it takes now that it is written: some file systems give more than asked for. */
  chargeFor(stat: fs.Stats): number {
    return Math.max(this.chargeOf(stat.size), stat.blocks * 512 + ENTRY_BYTES);
  }

  /** Takes up what an earlier mount has left; what can't be a piece of ours is removed. */
  scan(): FoundPieces {
    const found: { piece: Piece; mtimeMs: number }[] = [];
    let usedBytes = this.baseBytes;
    for (const name of fs.readdirSync(this.path)) {
      if (name === LOCK) continue;
      const path = join(this.path, name);
      const stat = fs.lstatSync(path);
      const parsed = parseFileName(name);
      const whole = stat.isFile() && stat.size === HEADER_BYTES + (parsed?.sizeBytes ?? 0);
      if (parsed === undefined || !whole) {
        fs.rmSync(path, { recursive: true, force: true });
        continue;
      }
      const chargedBytes = this.chargeFor(stat);
      usedBytes += chargedBytes;
      found.push({ piece: { ...parsed, chargedBytes, readers: 0 }, mtimeMs: stat.mtimeMs });
    }
    found.sort((left, right) => left.mtimeMs - right.mtimeMs);
    return { pieces: found.map(({ piece }) => piece), usedBytes };
  }
}

/** Made by somebody else, it could be read, or swapped under us. */
function makePrivate(path: string): void {
  try {
    fs.mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (!fs.existsSync(path)) throw error;
  }
  const stat = fs.lstatSync(path);
  if (!stat.isDirectory()) throw new Error(`${path} is not a directory`);
  if (stat.uid !== process.geteuid?.()) throw new Error(`${path} belongs to somebody else`);
  fs.chmodSync(path, 0o700);
  fs.accessSync(path, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK);
}

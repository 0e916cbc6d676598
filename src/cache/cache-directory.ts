import * as fs from "node:fs";
import { lstat, opendir, rm } from "node:fs/promises";
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

/** So many files are looked at before the event loop has its next turn. */
const SCAN_STEP = 16;

export interface FoundPiece {
  readonly piece: Piece;
  readonly mtimeMs: number;
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
      try {
        if (tryLockFile(lockFd)) return new CacheDirectory(path, lockFd);
        throw new Failure("conflict", `--cache ${given}: another mount uses it`);
      } catch (error) {
        fs.closeSync(lockFd); // a lock that is left would keep out the next attempt
        throw error;
      }
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

  /**
   * Pieces of an earlier mount, a few at a time, in no order. Files that can't be pieces
   * are removed. No file may be added meanwhile.
   */
  async *scan(): AsyncGenerator<FoundPiece[]> {
    let names: string[] = [];
    for await (const { name } of await opendir(this.path, { bufferSize: SCAN_STEP })) {
      if (name !== LOCK) names.push(name);
      if (names.length < SCAN_STEP) continue;
      yield await this.#look(names);
      names = [];
    }
    yield await this.#look(names);
  }

  async #look(names: readonly string[]): Promise<FoundPiece[]> {
    const found = await Promise.all(names.map((name) => this.#lookAt(name)));
    return found.filter((one) => one !== undefined);
  }

  async #lookAt(name: string): Promise<FoundPiece | undefined> {
    const path = join(this.path, name);
    const stat = await lstat(path).catch(() => undefined);
    if (stat === undefined) return undefined; // removed since it was listed
    const parsed = parseFileName(name);
    const whole = stat.isFile() && stat.size === HEADER_BYTES + (parsed?.sizeBytes ?? 0);
    if (parsed === undefined || !whole) {
      await rm(path, { recursive: true, force: true });
      return undefined;
    }
    const chargedBytes = this.chargeFor(stat);
    return { piece: { ...parsed, chargedBytes, readers: 0 }, mtimeMs: stat.mtimeMs };
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

import * as fs from "node:fs";
import { constants } from "node:os";
import { promisify } from "node:util";
import { sharedMs } from "./soak-report.ts";
import type { Call, Report, Return, Seen } from "./soak-report.ts";
import type { Version } from "./soak-version.ts";

/** Node makes a system call with a callback in a thread of its pool: not the one that opened. */
const openInThread = promisify(fs.open);
const closeInThread = promisify(fs.close);
const REPORTS_FD = 1;
const FLAGS = fs.constants.O_WRONLY | fs.constants.O_CREAT | fs.constants.O_TRUNC;

export interface OpenedFile {
  readonly fd: number;
  readonly session: number;
  readonly file: string;
  takenBytes: number;
  isAstray: boolean;
}

type Detail = Pick<Call, "version" | "session" | "bytes" | "astray">;

/** System calls on a mount, each reported before and after. They give the errno, not an error. */
export class SoakCalls {
  #last = 0;

  async open(version: Version, inThread: boolean): Promise<OpenedFile | undefined> {
    const { file } = version;
    let fd = -1;
    const errno = await this.#make("open", file, { version }, async () => {
      fd = inThread ? await openInThread(file, FLAGS) : fs.openSync(file, FLAGS);
    });
    const session = this.#last;
    return errno === undefined ? { fd, session, file, takenBytes: 0, isAstray: false } : undefined;
  }

  /** True when all bytes were taken. */
  async write(opened: OpenedFile, data: Uint8Array): Promise<boolean> {
    const { fd, session, file, takenBytes } = opened;
    let count = 0;
    const detail = { session, bytes: data.length };
    const errno = await this.#make("write", file, detail, async () => {
      count = fs.writeSync(fd, data, 0, data.length, takenBytes);
      return { bytes: count };
    });
    opened.takenBytes += count;
    if (errno !== undefined || count === data.length) return errno === undefined;
    return this.write(opened, data.subarray(count));
  }

  async writeAstray(opened: OpenedFile, data: Uint8Array, at: number): Promise<void> {
    const { fd, session, file } = opened;
    opened.isAstray = true;
    const detail = { session, bytes: data.length, astray: true };
    await this.#make("write", file, detail, async () => {
      fs.writeSync(fd, data, 0, data.length, at);
    });
  }

  async fsync({ fd, session, file }: OpenedFile): Promise<void> {
    await this.#make("fsync", file, { session }, async () => fs.fsyncSync(fd));
  }

  async close({ fd, session, file }: OpenedFile, inThread: boolean): Promise<void> {
    await this.#make("close", file, { session }, async () => {
      if (inThread) await closeInThread(fd);
      else fs.closeSync(fd);
    });
  }

  /** The program will end without a close. */
  abandon({ session, file }: OpenedFile): void {
    this.#say({ ...this.#next("abandon", file), session });
  }

  unlink(file: string): Promise<string | undefined> {
    return this.#make("unlink", file, {}, async () => fs.unlinkSync(file));
  }

  /** A call that changes no object and shows no content. */
  other(_name: string, path: string, act: (path: string) => unknown): Promise<string | undefined> {
    return this.#make("other", path, {}, async () => void act(path));
  }

  read(file: string) {
    const { id, ...call } = this.#next("read", file);
    this.#say({ ...call, id });
    const end = (more: Partial<Return>) => this.#say({ is: "return", at: sharedMs(), id, ...more });
    return {
      saw: (seen: Seen) => end({ seen }),
      failed: (error: unknown, openedAt: Seen["openedAt"]) =>
        end({ errno: errnoOf(error), seen: { openedAt, sizeBytes: 0 } }),
    };
  }

  odd(kind: string, what: string): void {
    this.#say({ is: "odd", at: sharedMs(), kind, what });
  }

  async #make(
    name: Call["call"],
    file: string,
    detail: Detail,
    act: () => Promise<void | { readonly bytes: number }>,
  ): Promise<string | undefined> {
    const call = this.#next(name, file);
    const { id } = call;
    this.#say({ ...call, ...detail });
    try {
      const more = (await act()) ?? {};
      this.#say({ is: "return", at: sharedMs(), id, ...more });
      return undefined;
    } catch (error) {
      const errno = errnoOf(error);
      this.#say({ is: "return", at: sharedMs(), id, errno });
      return errno;
    }
  }

  #next(call: Call["call"], file: string): Call {
    this.#last += 1;
    return { is: "call", at: sharedMs(), id: this.#last, call, file };
  }

  /** At once, so that a kill right after it does not take it back. */
  #say(report: Report): void {
    fs.writeSync(REPORTS_FD, `${JSON.stringify(report)}\n`);
  }
}

/** Node has no name for some of Linux's numbers, ESTALE among them: so it is looked up here. */
const NAMES = new Map(Object.entries(constants.errno).map(([name, number]) => [-number, name]));

function errnoOf(error: unknown): string {
  if (!(error instanceof Error) || !("errno" in error)) throw error;
  return NAMES.get(Number(error.errno)) ?? String(error.errno);
}

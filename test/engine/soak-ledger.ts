import { FileHistory } from "./soak-history.ts";
import type { Effect, Failures } from "./soak-history.ts";
import type { Call, LedgerFault, Report, Return } from "./soak-report.ts";
import { idOf } from "./soak-version.ts";
import type { Version } from "./soak-version.ts";

/** Errors that a program has to expect on a mount that lives, whatever S3 does. */
const EXPECTED_ERRNOS = new Set(["EPERM", "ENOENT", "EIO", "ESTALE", "EEXIST", "ENOTEMPTY"]);

/** A file that a program has open for writing. */
interface Session {
  readonly file: string;
  readonly version: Version;
  readonly openCall: Call;
  isOpen: boolean;
  /** Bytes that write(2) has taken. */
  taken: number;
  /** Bytes that fsync(2) has put into S3; -1 before the first one. */
  synced: number;
  /** The first write that failed: from then on nothing may be published. */
  failed?: string;
  /** The program said that it will die without a close. */
  abandonedAt?: number;
}

interface Program {
  readonly sessions: Map<number, Session>;
  /** Calls that have not returned. */
  readonly calls: Map<number, Call>;
  /** Calls that got a signal: each may be EINTR, or was made again by Node without a word. */
  readonly interrupted: Set<number>;
}

interface Unlinked {
  readonly at: number;
  readonly errno: string | undefined;
  /** Node has made the system call again after a signal. */
  readonly isRepeated: boolean;
}

/** The calls of all programs as they reported them, and what follows for every object. */
export class SoakLedger {
  /** Of calls that returned before the mount was told to end. */
  readonly counts = new Map<string, number>();
  readonly #files = new Map<string, FileHistory>();
  readonly #programs = new Map<string, Program>();
  readonly #odd: LedgerFault[] = [];
  /** When the mount was told to end: later errors mean nothing. */
  endsAt = Infinity;

  report(name: string, report: Report): void {
    if (report.is === "odd") {
      this.odd(report.kind, `${name}: ${report.what}`);
      return;
    }
    const program = this.#programOf(name);
    if (report.is === "call") {
      program.calls.set(report.id, report);
      this.#called(program, report);
      return;
    }
    const call = program.calls.get(report.id);
    if (call === undefined) throw new Error(`${name} returned from a call that it did not make`);
    program.calls.delete(report.id);
    const what = `${call.call} ${report.errno ?? "ok"}`;
    if (report.at < this.endsAt) this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
    this.#returned(name, program, call, report);
  }

  /** A call on that file that the program has not returned from. */
  pendingCallOf(name: string, file: string): Call["call"] | undefined {
    const calls = this.#programs.get(name)?.calls.values();
    return calls?.find((call) => call.file === file)?.call;
  }

  /** The program got a signal: the call that it waits in ends before S3 has answered. */
  interrupted(name: string): void {
    const { calls, interrupted } = this.#programOf(name);
    for (const id of calls.keys()) interrupted.add(id);
  }

  odd(kind: string, what: string): void {
    this.#odd.push({ kind, what });
  }

  history(file: string): FileHistory {
    const known = this.#files.get(file) ?? new FileHistory();
    this.#files.set(file, known);
    return known;
  }

  get files(): Iterable<string> {
    return this.#files.keys();
  }

  /** The program is gone and all its lines were read. `killedAt`: undefined when it just ended. */
  died(name: string, diedAt: number, killedAt: number | undefined): void {
    const { sessions, calls } = this.#programOf(name);
    this.#programs.delete(name);
    for (const call of calls.values()) {
      const effect = uncertain(undefined, [0, 0], call.at, diedAt);
      if (call.call === "unlink") this.history(call.file).add(effect);
    }
    for (const [id, session] of sessions) {
      const own = [...calls.values()].find((call) => call.session === id || call.id === id);
      const endedAt = session.abandonedAt ?? killedAt;
      if (endedAt === undefined) this.odd("a program ends with an open file", name);
      else this.#leftOpen(session, own, endedAt, diedAt);
    }
  }

  /** All that can't be explained. */
  faults(failuresOf: (file: string) => Failures): LedgerFault[] {
    const histories = [...this.#files].flatMap(([file, history]) =>
      history
        .faults(failuresOf(file))
        .map(({ kind, what }) => ({ kind, what: `${file}: ${what}` })),
    );
    return [...this.#odd, ...histories];
  }

  #called({ sessions }: Program, call: Call): void {
    const { file, version } = call;
    if (call.call === "open" && version !== undefined) {
      const session = { file, version, openCall: call, isOpen: false, taken: 0, synced: -1 };
      sessions.set(call.id, session);
    }
    const session = sessions.get(call.session ?? 0);
    if (call.call === "abandon" && session !== undefined) session.abandonedAt = call.at;
  }

  #returned(name: string, program: Program, call: Call, { at, errno, bytes, seen }: Return): void {
    const history = this.history(call.file);
    const session = program.sessions.get(call.session ?? call.id);
    const who = `${name} ${call.call}`;
    const isInterruption = errno === "EINTR" && program.interrupted.has(call.id);
    const isOdd = errno !== undefined && !isInterruption && !isExpected(errno, call, session);
    if (isOdd && at < this.endsAt) {
      this.odd(`${call.call} fails with ${errno}`, `${who} of ${call.file}`);
    }
    if (call.call === "read" || call.call === "unlink") {
      if (errno === "ENOENT" && at < this.endsAt) {
        const opened = seen?.openedAt ?? [call.at, at];
        history.saw({ who, begin: opened[0], end: opened[1], found: undefined });
      }
    }
    const isRepeated = program.interrupted.has(call.id);
    if (call.call === "unlink") this.#unlinked(history, call, { at, errno, isRepeated });
    if (call.call === "read" && seen !== undefined && errno === undefined) {
      const [begin, end] = seen.openedAt;
      const is = seen.version ?? Buffer.from(seen.body ?? "", "hex");
      history.saw({ who, begin, end, found: { sizeBytes: seen.sizeBytes, is } });
      history.wasOpened(begin, end);
    }
    if (session === undefined) return;
    if (call.call === "open") this.#opened(program, session, at, errno);
    if (call.call === "write") this.#wrote(name, session, call, bytes ?? 0, errno);
    if (call.call === "fsync" || call.call === "close") {
      this.#published(name, session, call, at, errno);
      if (call.call === "close") program.sessions.delete(call.session ?? 0);
    }
  }

  #unlinked(history: FileHistory, call: Call, { at, errno, isRepeated }: Unlinked): void {
    const range = [0, 0] as const;
    if (isRepeated && errno !== undefined) {
      // The first of the two system calls may have deleted the object.
      const effect = uncertain(undefined, range, call.at, at);
      history.add(errno === "ENOENT" ? { ...effect, end: at } : effect);
      return;
    }
    if (errno === undefined) {
      const effect = { version: undefined, lengths: range, begin: call.at, end: at };
      history.add({ ...effect, certain: true, isVersioned: true });
      history.wasOpened(call.at, at);
    } else if (errno !== "ENOENT" && errno !== "EPERM") {
      const needsLostAnswer = at < this.endsAt;
      history.add({ ...uncertain(undefined, range, call.at, at), needsLostAnswer });
    }
  }

  #opened(program: Program, session: Session, at: number, errno: string | undefined): void {
    const { openCall, file } = session;
    session.isOpen = errno === undefined;
    if (session.isOpen) this.history(file).wasOpened(openCall.at, at);
    else program.sessions.delete(openCall.id);
  }

  #wrote(name: string, session: Session, call: Call, bytes: number, errno?: string): void {
    const of = `${idOf(session.version)} of ${session.file}`;
    if (errno !== undefined) session.failed ??= errno;
    else if (call.astray === true) this.odd("a write astray is taken", `${name}: ${of}`);
    else if (session.failed !== undefined)
      this.odd("a file is written after a failure", `${name}: ${of}`);
    else session.taken += bytes;
  }

  #published(name: string, session: Session, call: Call, at: number, errno?: string): void {
    const { file, version, failed, taken, synced } = session;
    const of = `${idOf(version)} of ${file} at ${taken} of ${version.sizeBytes} bytes`;
    if (failed !== undefined) {
      if (errno !== undefined) return;
      this.odd(`${call.call} succeeds after a write failed with ${failed}`, `${name}: ${of}`);
      return;
    }
    if (taken === synced) return; // S3 has it already
    // An empty file is made when the last descriptor is gone; only fsync(2) tells how that went.
    const isLate = taken === 0 && call.call === "close";
    const lengths = [taken, taken] as const;
    if (errno === undefined && !isLate) {
      this.history(file).add({ version, lengths, begin: call.at, end: at, certain: true });
      session.synced = taken;
    } else {
      const needsLostAnswer = !isLate && at < this.endsAt;
      this.history(file).add({ ...uncertain(version, lengths, call.at, at), needsLostAnswer });
    }
  }

  /**
   * The writer was killed. The kernel closes the file for it: the engine may publish what write(2)
   * had taken, and of a write(2) under way any part. Not when the mount was told to end before.
   */
  #leftOpen(session: Session, call: Call | undefined, endedAt: number, diedAt: number): void {
    const { file, version, failed, taken, synced } = session;
    if (failed !== undefined) return;
    const isClosing = call?.call === "fsync" || call?.call === "close";
    if (!isClosing && endedAt >= this.endsAt) return;
    const isWriting = call?.call === "write" && call.astray !== true;
    const more = isWriting ? (call.bytes ?? 0) : 0;
    if (taken === synced && more === 0) return;
    const begin = isClosing || isWriting ? call.at : endedAt;
    this.history(file).add(uncertain(version, [taken, taken + more], begin, diedAt));
  }

  #programOf(name: string): Program {
    const known = this.#programs.get(name) ?? {
      sessions: new Map(),
      calls: new Map(),
      interrupted: new Set(),
    };
    this.#programs.set(name, known);
    return known;
  }
}

function uncertain(
  version: Version | undefined,
  lengths: readonly [number, number],
  begin: number,
  doneAsking: number,
): Effect {
  return { version, lengths, begin, end: Infinity, certain: false, doneAsking };
}

/** EINVAL is for writes astray alone, and for what follows them. */
function isExpected(errno: string, call: Call, session: Session | undefined): boolean {
  if (errno !== "EINVAL") return EXPECTED_ERRNOS.has(errno);
  return call.astray === true || session?.failed === "EINVAL";
}

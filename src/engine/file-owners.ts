import type { OwnerRecord } from "../journal/record.ts";

/** The part of an owner: it opened the file, inherited it from the opener, or only writes to it. */
export type OwnerRole = "opener" | "heir" | "writer";

/** A server that starts processes for ever while it has a file open must not fill the journal. */
const HEIRS_MAX = 256;

/**
 * Tells the close(2) that ends a file from those of inherited copies of its descriptor. FUSE sends
 * `lock_owner` with WRITE and FLUSH: it stands for the caller's table of file descriptors
 * (files_struct), which all threads of a process share and a forked child does not. OPEN comes
 * without it, so the opener's is learned from the first WRITE or FLUSH of the opening thread.
 */
export class FileOwners {
  readonly #openedByPid: number;
  readonly #note: (owner: string, role: OwnerRole) => void;
  readonly #writers = new Set<string>();
  /** Writers that began when somebody had inherited the file. */
  readonly #lateWriters = new Set<string>();
  readonly #heirs = new Set<string>();
  #opener: string | undefined;

  /** `note`: what a successor of this process has to know. */
  constructor(
    openedByPid: number,
    note: (owner: string, role: OwnerRole) => void,
    saved: Iterable<OwnerRecord> = [],
  ) {
    this.#openedByPid = openedByPid;
    this.#note = note;
    for (const { owner, opened, inherited } of saved) {
      if (opened === true) this.#opener = owner;
      else if (inherited === true) this.#heirs.add(owner);
      else this.#addWriter(owner);
    }
  }

  /** Bytes come from this owner. */
  wrote(owner: string, pid: number): void {
    if (this.#learnOpener(owner, pid) || this.#opener !== undefined) return;
    const all = [this.#writers, this.#lateWriters, this.#heirs];
    if (all.some((owners) => owners.has(owner))) return;
    this.#addWriter(owner);
    this.#note(owner, "writer");
  }

  /**
   * Whether this close ends the file. The opener's does, and no other: a shell opens a file, lets
   * one command after the other write to it, and each of them closes its copy. Where the opener is
   * not known, because a pool of threads opens in one and writes in another, a writer's close does.
   * A late writer may as well be a command of a command, with others to come: its close ends the
   * file only if it can be written on after that.
   */
  isEndedBy(owner: string, pid: number, canBeWrittenOn: boolean): boolean {
    this.#learnOpener(owner, pid);
    if (this.#opener !== undefined) return this.#opener === owner;
    if (this.#writers.has(owner)) return true;
    if (this.#lateWriters.has(owner)) return canBeWrittenOn;
    this.#learnHeir(owner);
    return false;
  }

  #addWriter(owner: string): void {
    (this.#heirs.size > 0 ? this.#lateWriters : this.#writers).add(owner);
  }

  /** A caller outside the connection's PID namespace has the pid 0: that says nothing. */
  #learnOpener(owner: string, pid: number): boolean {
    if (this.#opener !== undefined || pid !== this.#openedByPid || pid === 0) return false;
    this.#opener = owner;
    this.#note(owner, "opener");
    return true;
  }

  /**
   * A command that a program starts with the file as its output closes the inherited descriptor
   * (dup2 and close-on-exec) before it writes by its copy. The program goes on with the file.
   */
  #learnHeir(owner: string): void {
    if (this.#heirs.has(owner) || this.#heirs.size >= HEIRS_MAX) return;
    this.#heirs.add(owner);
    this.#note(owner, "heir");
  }
}

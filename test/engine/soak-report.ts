import type { Version } from "./soak-version.ts";

/** Something that must not happen: which of all, and where it did. */
export interface LedgerFault {
  readonly kind: string;
  readonly what: string;
}

/**
 * The lines that a program of the soak writes to its stdout: one right before each system call
 * that matters and one right after it, so that a kill in between leaves an open question, never a
 * wrong answer. `at` is CLOCK_MONOTONIC in milliseconds, the same clock in every process.
 */
export type Report = Call | Return | ({ readonly at: number; readonly is: "odd" } & LedgerFault);

export interface Call {
  readonly at: number;
  readonly is: "call";
  readonly id: number;
  readonly call: "open" | "write" | "fsync" | "close" | "abandon" | "unlink" | "read" | "other";
  readonly file: string;
  /** Of open. */
  readonly version?: Version;
  /** Which open file is meant: the id of the call that opened it. */
  readonly session?: number;
  /** Of write. */
  readonly bytes?: number;
  /** Of write: not at the end of what was written, so that it must be refused. */
  readonly astray?: boolean;
}

export interface Return {
  readonly at: number;
  readonly is: "return";
  readonly id: number;
  /** The name of an errno; undefined: the call succeeded. */
  readonly errno?: string;
  /** Of write: how many bytes were taken. */
  readonly bytes?: number;
  /** Of read. */
  readonly seen?: Seen;
}

/** A file as a reader found it. */
export interface Seen {
  /** When its open began and had returned. */
  readonly openedAt: readonly [begin: number, end: number];
  readonly sizeBytes: number;
  /** The version that all bytes are of; undefined for a body too short to say. */
  readonly version?: Version;
  /** Such a short body, in hex. */
  readonly body?: string;
}

/** CLOCK_MONOTONIC: the same in every process of the machine. */
export function sharedMs(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}

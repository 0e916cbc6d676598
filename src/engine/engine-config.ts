import type { ReadSizes } from "./read-stream.ts";

export interface EngineConfig {
  /** Empty, or ends with a slash: the part of the bucket that is served. */
  readonly prefix: string;
  readonly readOnly: boolean;
  readonly allowDelete: boolean;
  readonly allowOverwrite: boolean;
  readonly uid: number;
  readonly gid: number;
  readonly directoryMode: number;
  readonly fileMode: number;
  readonly metadataTtlMs: number;
  readonly negativeTtlMs: number;
  readonly reads: ReadSizes;
  readonly writePartSizeBytes: number;
  /** For data on its way: windows of readers, parts of writers. */
  readonly memoryBytes: number;
  /** Inodes that the kernel may make us remember before the oldest ones are let go. */
  readonly inodesMax: number;
}

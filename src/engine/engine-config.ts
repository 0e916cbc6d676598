import type { PartLimits } from "./part-sizes.ts";
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
  /** Every open of an object asks S3, however long its metadata is valid. */
  readonly revalidatesOpens: boolean;
  readonly negativeTtlMs: number;
  /** Ends a request that is neither answered nor refused. Longer than an outage is waited for. */
  readonly requestLimitMs: number;
  readonly reads: ReadSizes;
  readonly writePartSizeBytes: number;
  /** The limits of parts; S3's own if absent. */
  readonly writePartLimits?: PartLimits;
  /** When an aborted upload is aborted once more, for parts that were late; as usual if absent. */
  readonly latePartChecksMs?: readonly number[];
  /** For data on its way: windows of readers, parts of writers. */
  readonly memoryBytes: number;
  /** Data of WRITE requests that wait for memory; no limit if absent. */
  readonly blockedWriteBytes?: number;
  /** WRITE requests that wait for memory, each in its request slot; no limit if absent. */
  readonly blockedWritesMax?: number;
  /** Inodes that the kernel may make us remember before the oldest ones are let go. */
  readonly inodesMax: number;
}

import type { EngineConfig } from "./engine-config.ts";

/** For tests: everything is allowed, nothing is remembered, parts are tiny. */
export const TEST_CONFIG: EngineConfig = {
  prefix: "",
  readOnly: false,
  allowDelete: true,
  allowOverwrite: true,
  uid: 0,
  gid: 0,
  directoryMode: 0o755,
  fileMode: 0o644,
  metadataTtlMs: 0,
  revalidatesOpens: true,
  negativeTtlMs: 0,
  requestLimitMs: 120_000,
  reads: { partBytes: 16, longGets: true },
  writePartSizeBytes: 16,
  latePartChecksMs: [], // a store in memory takes no part for an upload that it has removed
  memoryBytes: 1 << 20,
  inodesMax: 1000,
};

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
  negativeTtlMs: 0,
  reads: { partBytes: 16, longGets: true },
  writePartSizeBytes: 16,
  memoryBytes: 1 << 20,
  inodesMax: 1000,
};

import { startS3Server } from "./s3-server.ts";
import type { S3Server } from "./s3-server.ts";
import { startScalityServer } from "./scality-server.ts";

/** The kinds of S3 server that tests of faults run on. */
export const S3_SERVERS = {
  versitygw: () => startS3Server(),
  scality: startScalityServer,
} as const satisfies Record<string, () => Promise<S3Server>>;

/** The server that the variable S3_SERVER names, versitygw by default. */
export function startChosenS3Server(): Promise<S3Server> {
  const name = process.env["S3_SERVER"] ?? "versitygw";
  if (name === "versitygw" || name === "scality") return S3_SERVERS[name]();
  throw new Error(`S3_SERVER=${name}: versitygw or scality is expected`);
}

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const MAIN = join(import.meta.dirname, "../../src/main.ts");

const ALONE = ["--reconcile=false", "--provision=false"];

/**
 * The program itself, as a process: csi-sanity is a Go client and sees only the socket. Without
 * other flags it has no API server.
 */
export async function startController(
  env: Readonly<Record<string, string>> = {},
  flags: readonly string[] = ALONE,
) {
  const dir = await mkdtemp(join(tmpdir(), "s3csi-sanity-"));
  const endpoint = `unix://${join(dir, "csi.sock")}`;
  const args = [MAIN, "controller", `--endpoint=${endpoint}`, ...flags];
  const child = spawn(process.execPath, args, {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ...env },
  });
  const lines = createInterface({ input: child.stdout });
  for await (const line of lines) if (line.includes("serving gRPC")) break;
  child.stdout.resume();
  return {
    endpoint,
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      assert.deepEqual(await ended, [0, null], "SIGTERM ends it cleanly");
      await rm(dir, { recursive: true });
    },
  };
}

import { existsSync } from "node:fs";
import { createLog } from "../../src/base/pino-log.ts";
import { mountFuse, openFuseDevice } from "../../src/sys/fuse-mount.ts";
import { createMountMemory } from "../../src/sys/mount-fds.ts";
import { CONTROL_FD_VARIABLE } from "../../src/supervisor/control-messages.ts";
import { Supervisor } from "../../src/supervisor/supervisor.ts";

/**
 * A supervisor that gives up soon, and, as its own child, an engine that can't start any more
 * once a certain file is there.
 */
const GIVE_UP_AFTER_MS = 1_500;

async function supervise([, bucket = "", dir = ""]: readonly string[]): Promise<void> {
  const fuse = openFuseDevice();
  mountFuse(fuse, dir, { readOnly: false, source: "s3csi-test" });
  const spec = {
    args: [bucket, dir],
    env: process.env,
    credentials: "find",
    mountedByUs: true,
  } as const;
  const log = createLog("info", { role: "test" });
  const options = { log, giveUpAfterMs: GIVE_UP_AFTER_MS };
  const supervisor = new Supervisor(spec, { fuse, ...createMountMemory() }, options);
  await supervisor.ready;
  log.info("mounted");
  process.exitCode = await supervisor.ended;
}

if (process.env[CONTROL_FD_VARIABLE] === undefined) await supervise(process.argv.slice(2));
else if (existsSync(process.env["NO_ENGINE"] ?? "")) process.exit(9);
else await import("../../src/main.ts");

import { createLog } from "../../src/base/pino-log.ts";
import { openFuseDevice } from "../../src/sys/fuse-mount.ts";
import { createMountMemory } from "../../src/sys/mount-fds.ts";
import { Supervisor } from "../../src/supervisor/supervisor.ts";

/** A supervisor, and as its own child an engine that takes all memory there is, once. */
const PIECE_BYTES = 16 << 20;

async function supervise(): Promise<void> {
  const spec = { args: [], env: process.env, credentials: null, mountedByUs: false } as const;
  const options = {
    log: createLog("info", { role: "test" }),
    onRecovered: () => supervisor.finish(),
  };
  const fds = { fuse: openFuseDevice(), ...createMountMemory() };
  const supervisor: Supervisor = new Supervisor(spec, fds, options);
  process.exitCode = await supervisor.ended;
}

function serve(): void {
  const held: Buffer[] = [];
  process.on("message", (message: { do: string; resume?: boolean }) => {
    if (message.do === "finish") process.send?.({ did: "finished" }, () => process.exit(0));
    if (message.do !== "start") return;
    process.send?.({ did: "ready" }, () => {
      while (message.resume !== true) held.push(Buffer.alloc(PIECE_BYTES, 1));
    });
  });
}

if (process.send === undefined) await supervise();
else serve();

import { createLog } from "../../src/base/pino-log.ts";
import { openFuseDevice } from "../../src/sys/fuse-mount.ts";
import { createMountMemory } from "../../src/sys/mount-fds.ts";
import { ParentLine } from "../../src/supervisor/parent-line.ts";
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

function serve(parent: ParentLine): void {
  const held: Buffer[] = [];
  const take = async (text: string) => {
    const message = JSON.parse(text) as { readonly do: string; readonly resume?: boolean };
    if (message.do === "finish") {
      await parent.tell({ did: "finished" });
      process.exit(0);
    }
    if (message.do !== "start") return;
    await parent.tell({ did: "ready" });
    while (message.resume !== true) held.push(Buffer.alloc(PIECE_BYTES, 1));
  };
  parent.listen(
    (text) => void take(text),
    () => process.exit(1),
  );
}

const line = ParentLine.open();
if (line === undefined) await supervise();
else serve(line);

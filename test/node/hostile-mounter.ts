import { closeSync, mkdirSync, openSync, renameSync } from "node:fs";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import { join } from "node:path";
import { createLog } from "../../src/base/pino-log.ts";
import { HandoverServer } from "../../src/handover/handover-server.ts";
import type { Handler } from "../../src/handover/handover-server.ts";
import { mountFuse, openFuseDevice } from "../../src/sys/fuse-mount.ts";
import { createMountMemory } from "../../src/sys/mount-fds.ts";
import { sendWithFds } from "../../src/sys/unix-socket.ts";

/** What a compromised Mountpoint Pod might do: `hostile-mounter.ts MODE DIRECTORY`. */
type Act = (socket: Socket, line: string) => void;

const answer = (text: string): Act => {
  return (socket) => void socket.write(`${text}\n`);
};

interface Mode {
  readonly greet?: (socket: Socket) => void;
  readonly act: Act;
}

const MODES: Readonly<Record<string, Mode>> = {
  garbage: { act: answer("\0 not JSON") },
  stranger: { act: answer('{"did":"ready","extra":true}') },
  keys: { act: answer(`{"did":"ready",${'"x'.padEnd(5_000, "x")}":1}`) },
  finished: { act: answer('{"did":"finished"}') },
  endless: { act: (socket) => void socket.write(Buffer.alloc(1 << 20, "x")) },
  silent: { act: () => {} },
  hangup: { act: (socket) => void socket.destroy() },
  chatty: {
    greet: (socket) => void socket.write('{"did":"ready"}\n'.repeat(1_000)),
    act: () => {},
  },
  /** Claims to serve, and does not answer to the finish until it is told to leave. */
  liar: {
    act: (socket, line) => {
      if (line.includes('"mount"')) socket.write('{"did":"ready"}\n');
      else process.once("SIGUSR2", () => socket.destroy());
    },
  },
};

const file = () => openSync("/dev/null", "r");
const memory = () => Object.values(createMountMemory());
const SHARING: Readonly<Record<string, () => readonly number[]>> = {
  "shares nothing": () => [],
  "shares as mount-s3": () => [],
  "shares files": () => [file(), file(), file(), file()],
  "shares another": () => [anotherConnection(), ...memory()],
  "shares too many": () => [openFuseDevice(), ...memory(), file()],
  "shares no memory": () => [openFuseDevice(), file(), file(), file()],
};

/** Of a mount that is not the one it is asked for. */
function anotherConnection(): number {
  const [fuse, dir] = [openFuseDevice(), join(directory, "other")];
  mkdirSync(dir);
  mountFuse(fuse, dir, { readOnly: false, source: "s3csi:other" });
  return fuse;
}

/** Answers as an honest one does, with descriptors of its own choice. */
function shareWith(fds: () => readonly number[]): void {
  const spec = { bucket: "b", args: [], env: {}, credentials: null };
  const mount = name.endsWith("mount-s3") ? { ...spec, engine: "mount-s3" as const } : spec;
  const handle: Handler = async (_request, [socket = -1]) => {
    const chosen = fds();
    if (chosen.length > 0) sendWithFds(socket, Buffer.from(" "), chosen);
    closeSync(socket);
    return { did: "shared", mount };
  };
  void new HandoverServer(handle, createLog("error", {})).listen(join(directory, "mount.sock"));
}

const [, , name = "", directory = ""] = process.argv;
const mode = MODES[name];
const sharing = SHARING[name];
if (sharing !== undefined) shareWith(sharing);
else if (mode !== undefined) serve(mode);
else throw new Error(`no mode ${name}`);

function serve(acting: Mode): void {
  const draft = join(directory, "draft");
  createServer((socket) => {
    socket.on("error", () => {});
    acting.greet?.(socket);
    socket.on("data", (data) => acting.act(socket, String(data)));
  }).listen(draft, () => renameSync(draft, join(directory, "mount.sock")));
}

import { renameSync } from "node:fs";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import { join } from "node:path";

/** What a compromised Mountpoint Pod might do: `hostile-mounter.ts MODE DIRECTORY`. */
type Act = (socket: Socket, line: string) => void;

const answer = (text: string): Act => {
  return (socket) => void socket.write(`${text}\n`);
};

const MODES: Readonly<Record<string, { readonly greet?: (socket: Socket) => void; act: Act }>> = {
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

const [, , name = "", directory = ""] = process.argv;
const mode = MODES[name];
if (mode === undefined) throw new Error(`no mode ${name}`);
const draft = join(directory, "draft");
createServer((socket) => {
  socket.on("error", () => {});
  mode.greet?.(socket);
  socket.on("data", (data) => mode.act(socket, String(data)));
}).listen(draft, () => renameSync(draft, join(directory, "mount.sock")));

import { Buffer } from "node:buffer";
import { constants } from "node:os";
import { bind, checked, inThread, SystemError } from "./libc.ts";

/** More than glibc's posix_spawn_file_actions_t takes, whose form is its own business. */
const ACTIONS_BYTES = 256;
const SIGINFO_BYTES = 128;
const STDIN = 0;
const O_RDONLY = 0;
const OUTPUTS = [1, 2];
const P_PID = 1;
const WNOHANG = 1;
const WEXITED = 4;
const WNOWAIT = 0x01000000;

const posixSpawn = bind(
  "int posix_spawn(_Out_ int *pid, const char *path, const void *actions, " +
    "const void *attributes, const char **argv, const char **envp)",
);
const actionsInit = bind("int posix_spawn_file_actions_init(void *actions)");
const actionsDestroy = bind("int posix_spawn_file_actions_destroy(void *actions)");
const addDup = bind("int posix_spawn_file_actions_adddup2(void *actions, int from, int to)");
const addOpen = bind(
  "int posix_spawn_file_actions_addopen(void *actions, int fd, const char *path, int flags, " +
    "uint32_t mode)",
);
const waitid = bind("int waitid(int type, uint32_t id, void *info, int options)");
const waitpid = bind("int waitpid(int pid, _Out_ int *status, int options)");

export interface Program {
  readonly path: string;
  /** Its own name is the first. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** It inherits these under their numbers, and where we write to; it has nothing to read. */
  readonly fds: readonly number[];
}

export interface ChildEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/**
 * A process of our own, without `node:child_process`: to load that takes as long as all else that a
 * mounter does before a pod gets its volume.
 */
export class Child {
  readonly pid: number;
  #isThere = true;

  constructor({ path, argv, env, fds }: Program) {
    const pid = [0];
    const actions = Buffer.alloc(ACTIONS_BYTES);
    done("posix_spawn_file_actions_init", actionsInit(actions));
    try {
      done("posix_spawn /dev/null", addOpen(actions, STDIN, "/dev/null", O_RDONLY, 0));
      // To its own number: what is closed on exec in this process is not in that one.
      for (const fd of [...OUTPUTS, ...fds]) done("posix_spawn", addDup(actions, fd, fd));
      const words = [...argv, null];
      done("posix_spawn", posixSpawn(pid, path, actions, null, words, wordsOf(env)), path);
    } finally {
      actionsDestroy(actions);
    }
    this.pid = pid[0] ?? 0;
  }

  kill(): void {
    if (this.#isThere) process.kill(this.pid, "SIGKILL");
  }

  /**
   * Waits in a pool thread for its end, so best when that is near. It is let go of only here, so
   * that its number is nobody else's before this tells.
   */
  async untilEnd(): Promise<ChildEnd> {
    const status = [0];
    const info = Buffer.alloc(SIGINFO_BYTES);
    for (;;) {
      await inThread(waitid, P_PID, this.pid, info, WEXITED | WNOWAIT);
      const ended = checked("waitpid", waitpid(this.pid, status, WNOHANG), String(this.pid));
      if (ended === this.pid) break; // else a signal came in between
    }
    this.#isThere = false;
    return endOf(status[0] ?? 0);
  }
}

function wordsOf(env: Program["env"]): (string | null)[] {
  const words = Object.entries(env).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${value}`],
  );
  return [...words, null];
}

/** These give the errno itself. */
function done(call: string, errno: number, subject?: string): void {
  if (errno !== 0) throw new SystemError(call, errno, subject);
}

function endOf(status: number): ChildEnd {
  const signalNumber = status & 0x7f;
  if (signalNumber === 0) return { code: (status >> 8) & 0xff, signal: null };
  const names = Object.entries(constants.signals) as [NodeJS.Signals, number][];
  const [signal] = names.find(([, number]) => number === signalNumber) ?? [];
  return { code: null, signal: signal ?? "SIGKILL" };
}

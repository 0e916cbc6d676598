import { Buffer } from "node:buffer";
import { closeSync, readFileSync, readSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { containerMemory } from "../base/container-memory.ts";
import { Failure, isFailureKind } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { LineBuffer } from "../base/line-buffer.ts";
import { parseJson } from "../base/parse-json.ts";
import { Child } from "../sys/child.ts";
import type { ChildEnd } from "../sys/child.ts";
import { SystemError } from "../sys/libc.ts";
import { listOf } from "../sys/mount-fds.ts";
import type { MountFds } from "../sys/mount-fds.ts";
import { sendWithFds, socketPair, untilReadable } from "../sys/unix-socket.ts";
import { CONTROL_FD_VARIABLE, CONTROL_LINE_MAX } from "./control-messages.ts";
import type { ControlMessage, Start } from "./control-messages.ts";
import { heapFlags } from "./heap-limit.ts";

/** For names, the files of a cache, and notifications, which may wait long inside the kernel. */
const POOL_THREADS = "8";

/** What to serve, for as many engines as it takes. */
export interface EngineSpec {
  /** What Node runs: ourselves, unless said otherwise. No word after it is ever Node's. */
  readonly program?: string;
  /** Of `s3csi mount`, one word each: with a bucket, and a directory that is not looked at. */
  readonly args: readonly string[];
  readonly env: Environment;
  readonly credentials: Start["credentials"];
  /** Mounts the connection, when the first engine is sure that it can serve it. */
  readonly mount?: () => void;
  /** With default_permissions, then: the kernel insists on it for some features. */
  readonly mountedByUs: boolean;
  /** The memory limit of the container; that of this process if absent. */
  readonly containerBytes?: number;
}

export interface EngineStart {
  readonly resume: boolean;
  /** How many times as large as usual its heap may be. */
  readonly heapFactor?: number;
}

/** How often the engine's process is looked at: see isZombie(). */
const LOOK_AGAIN_MS = 1_000;
const REMAINS_MS = 1_000;
const KILLED: ChildEnd = { code: null, signal: "SIGKILL" };

/** In an engine's own words, which it has also written where people look. */
export class EngineFailure extends Failure {}

/** How a process has ended. `orderly`: it said so before; everything else is a crash. */
export interface EngineEnd extends ChildEnd {
  readonly orderly: boolean;
}

/** One engine: a child process that holds the descriptors and serves the bucket. */
export class EngineProcess {
  /** It is dead, and the kernel has taken back all that it held. */
  readonly ended: Promise<EngineEnd>;
  readonly #child: Child | undefined;
  readonly #ready = Promise.withResolvers<void>();
  readonly #mount: (() => void) | undefined;
  /** Our end of the line to it; undefined once it has closed its own. */
  #control: number | undefined;
  #orderly = false;
  #onAlive: (() => void) | undefined;

  /** The descriptors are inherited: the caller keeps its own. */
  constructor(spec: EngineSpec, fds: MountFds, how: EngineStart) {
    const { mine, theirs } = socketPair();
    this.#control = mine;
    try {
      const flags = heapFlags(spec.containerBytes ?? containerMemory(), how.heapFactor);
      this.#child = spawnEngine(spec, flags, [...listOf(fds), theirs], theirs);
    } finally {
      closeSync(theirs);
    }
    this.#ready.promise.catch(() => {}); // whoever waits for it hears of it
    this.ended = this.#run(mine);
    void this.ended.then((end) => {
      this.#ready.reject(new Failure("remote", `the engine ended (${describe(end)}) too early`));
    });
    const { credentials, mountedByUs } = spec;
    const waits = !how.resume && spec.mount !== undefined;
    this.#mount = spec.mount;
    const { fuse: fuseFd, slots: slotsFd, journal: journalFd, spool: spoolFd } = fds;
    const fdNumbers = { fuseFd, slotsFd, journalFd, spoolFd };
    this.#tell({ do: "start", ...fdNumbers, credentials, mountedByUs, waits, resume: how.resume });
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Resolves when it serves; rejects with the engine's own words when it can't. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Asks it to complete what was acknowledged and to end. */
  finish(): void {
    this.#tell({ do: "finish" });
  }

  rekey(credentials: Start["credentials"]): void {
    this.#tell({ do: "rekey", credentials });
  }

  /** Asks for a sign of life; the last asker gets it. */
  ask(onAlive: () => void): void {
    this.#onAlive = onAlive;
    this.#tell({ do: "ask" });
  }

  kill(): void {
    this.#child?.kill();
  }

  /** Its end closes the line behind the last that it told: only then is it waited for. */
  async #run(control: number): Promise<EngineEnd> {
    if (this.#child === undefined) {
      this.#hangUp();
      return { code: 1, signal: null, orderly: false };
    }
    await this.#listen(control, this.#child.pid);
    const ended = this.#child.untilEnd();
    ended.catch(() => undefined); // may settle long after this
    // The remains of a process that died inside the kernel may stay until its successor answers.
    const end = await Promise.race([ended, sleep(REMAINS_MS, KILLED, { ref: false })]);
    return { ...end, orderly: this.#orderly };
  }

  async #listen(control: number, pid: number): Promise<void> {
    const buffer = Buffer.alloc(CONTROL_LINE_MAX);
    const lines = new LineBuffer(CONTROL_LINE_MAX);
    try {
      for (;;) {
        if (!(await untilReadable(control, LOOK_AGAIN_MS))) {
          if (isZombie(pid)) return;
          continue;
        }
        const count = readSync(control, buffer);
        if (count === 0) return;
        for (const line of lines.add(buffer.subarray(0, count))) this.#take(parseJson(line));
      }
    } catch (error) {
      // One that has died with something unread is told by an error; one that raves is ended.
      if (!(error instanceof Error && "syscall" in error)) this.kill();
    } finally {
      this.#hangUp();
    }
  }

  #hangUp(): void {
    if (this.#control !== undefined) closeSync(this.#control);
    this.#control = undefined;
  }

  #tell(message: ControlMessage): void {
    if (this.#control === undefined) return;
    try {
      sendWithFds(this.#control, Buffer.from(`${JSON.stringify(message)}\n`), []);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error; // it is dead or hangs: others see to that
    }
  }

  #attach(): void {
    try {
      this.#mount?.();
      this.#tell({ do: "serve" });
    } catch (error) {
      this.#ready.reject(error);
    }
  }

  /** By hand: the supervisor has to be small, and who talks here is our own child. */
  #take(message: unknown): void {
    if (typeof message !== "object" || message === null || !("did" in message)) return;
    if (message.did === "opened") this.#attach();
    if (message.did === "ready") this.#ready.resolve();
    if (message.did === "alive") this.#onAlive?.();
    if (message.did === "finished") this.#orderly = true;
    if (message.did !== "failed" || !("kind" in message) || !("message" in message)) return;
    const kind = isFailureKind(message.kind) ? message.kind : "remote";
    this.#orderly = true; // it ended on purpose, and said why
    this.#ready.reject(new EngineFailure(kind, String(message.message)));
  }
}

/** Undefined: there is no such program, or no room for a process. */
function spawnEngine(
  { program = process.argv[1] ?? "", args, env }: EngineSpec, // the bundle, or its source
  flags: readonly string[],
  fds: readonly number[],
  controlFd: number,
): Child | undefined {
  const node = process.execPath;
  const own = { UV_THREADPOOL_SIZE: POOL_THREADS, [CONTROL_FD_VARIABLE]: String(controlFd) };
  try {
    return new Child({
      path: node,
      argv: [node, ...flags, program, "engine", ...args],
      env: { ...env, ...own },
      fds,
    });
  } catch (error) {
    if (!(error instanceof SystemError)) throw error;
    return undefined;
  }
}

export function describe({ code, signal }: EngineEnd): string {
  return signal ?? `exit status ${code ?? "unknown"}`;
}

/** What an administrator may have set for the pod: authorities to trust, the way to the network. */
const PASSED_ON = [
  "NODE_EXTRA_CA_CERTS",
  ...["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"].flatMap((name) => [
    name,
    name.toLowerCase(),
  ]),
];

/**
 * What an engine in a pod may know: its settings, and a few things of the pod's own. Nothing else
 * is inherited, such as a variable that changes how Node starts.
 */
export function podEnvironment(settings: Environment, own: Environment): Environment {
  const passed = PASSED_ON.filter((name) => own[name] !== undefined);
  return { ...settings, ...Object.fromEntries(passed.map((name) => [name, own[name]])) };
}

/**
 * Whether the process has died, though a thread of it may be left: one that waits in the kernel
 * inside a FUSE notification, for a lock whose holder waits for an answer. It keeps all files of
 * the process open, so that neither the socket nor waitid(2) tells of the death.
 */
function isZombie(pid: number): boolean {
  try {
    return / [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\)/, ""));
  } catch {
    return false; // no /proc here
  }
}

import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { Failure, isFailureKind } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import type { MountFds } from "../sys/mount-fds.ts";
import type { ControlMessage, Start } from "./control-messages.ts";

/** Where the child finds what it inherits; 0 to 2 are the usual ones. */
const CHILD_FDS = { fuse: 3, slots: 4, journal: 5, spool: 6 } as const satisfies MountFds;
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
}

/** In an engine's own words, which it has also written where people look. */
export class EngineFailure extends Failure {}

/** How a process has ended. `orderly`: it said so before; everything else is a crash. */
export interface EngineEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly orderly: boolean;
}

/** One engine: a child process that holds the descriptors and serves the bucket. */
export class EngineProcess {
  /** It is dead, and the kernel has taken back all that it held. */
  readonly ended: Promise<EngineEnd>;
  readonly #child: ChildProcess;
  readonly #ready = Promise.withResolvers<void>();
  readonly #mount: (() => void) | undefined;
  #orderly = false;
  #onAlive: (() => void) | undefined;

  /** The descriptors are inherited: the caller keeps its own. */
  constructor(spec: EngineSpec, fds: MountFds, how: { readonly resume: boolean }) {
    const { program = process.argv[1] ?? "" } = spec; // the bundle, or its source
    this.#child = spawn(process.execPath, [program, "engine", ...spec.args], {
      env: { ...spec.env, UV_THREADPOOL_SIZE: POOL_THREADS },
      stdio: ["ignore", "inherit", "inherit", fds.fuse, fds.slots, fds.journal, fds.spool, "ipc"],
    });
    this.ended = new Promise((resolve) => {
      // "close", not "exit": only then has everything that it told arrived.
      this.#child.once("close", (code, signal) => {
        resolve({ code, signal, orderly: this.#orderly });
      });
      this.#child.once("error", () => resolve({ code: 1, signal: null, orderly: false }));
    });
    this.#ready.promise.catch(() => {}); // whoever waits for it hears of it
    void this.ended.then((end) => {
      this.#ready.reject(new Failure("remote", `the engine ended (${describe(end)}) too early`));
    });
    this.#child.on("message", (message) => this.#take(message));
    const { credentials, mountedByUs } = spec;
    const waits = !how.resume && spec.mount !== undefined;
    this.#mount = spec.mount;
    const { slots: slotsFd, journal: journalFd, spool: spoolFd } = CHILD_FDS;
    const fdNumbers = { fuseFd: CHILD_FDS.fuse, slotsFd, journalFd, spoolFd };
    this.#tell({ do: "start", ...fdNumbers, credentials, mountedByUs, waits, resume: how.resume });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
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
    this.#child.kill("SIGKILL");
  }

  #tell(message: ControlMessage): void {
    if (this.#child.connected) this.#child.send(message, () => {});
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

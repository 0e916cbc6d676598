import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import type { Log } from "../base/log.ts";
import type { Credentials, MountSpec } from "../handover/messages.ts";
import { describe, podEnvironment } from "../supervisor/engine-process.ts";
import { countOomKills } from "../supervisor/oom-kills.ts";
import { POLLERR, POLLIN, eventsOf } from "../sys/poll.ts";
import { CredentialsFile } from "./credentials-file.ts";
import { LastWords } from "./last-words.ts";
import { ProgramOutput } from "./program-output.ts";

/** How the program's parser of options says that it was called wrongly. */
const USAGE_STATUS = 2;
const LOOK_EVERY_MS = 20;
/** From the word to finish. Unmounting ends it, unless another mount namespace has a copy. */
const LEAVE_WITHIN_MS = 10_000;
const KILL_AFTER_MS = 20_000;
const CHILD_FUSE_FD = 3;
/** It refuses them on a descriptor: who has mounted it has seen to them. */
const OF_THE_MOUNT: ReadonlySet<string> = new Set(["--read-only", "--auto-unmount"]);

/** The administrator's settings. */
export interface MountS3Settings {
  readonly program: string;
  /** Memory, for the file with the keys. */
  readonly credentialsDir: string;
  /** Takes what the program prints, at every level: its own options say how much that is. */
  readonly outputLog: Log;
}

export interface MountS3Options extends MountS3Settings {
  readonly log: Log;
  /** It has ended and was not asked to: the mount is dead. */
  readonly onDeath: (cause: string) => void;
}

interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly error?: Error;
}

/**
 * The program mount-s3 on a connection that somebody else has mounted. It can't go on where another
 * has ended, so nobody but itself keeps the descriptor: the mount is dead as soon as it is, and
 * whoever waits for an answer is released.
 */
export class MountS3 {
  readonly ended: Promise<number>;
  readonly #options: MountS3Options;
  readonly #keys: CredentialsFile;
  readonly #child: ChildProcess;
  readonly #end: Promise<End>;
  readonly #words = new LastWords();
  readonly #ready = Promise.withResolvers<void>();
  readonly #oomKills = countOomKills();
  #finishing = false;

  /** Owns the descriptor from now on, unless it throws. */
  constructor(spec: MountSpec, fuseFd: number, options: MountS3Options) {
    this.#options = options;
    this.#keys = new CredentialsFile(options.credentialsDir);
    this.#keys.write(spec.credentials);
    this.#child = spawn(options.program, mountS3Args(spec), {
      env: mountS3Environment(spec, this.#keys.env, process.env),
      stdio: ["ignore", "pipe", "pipe", fuseFd],
    });
    const { stdout, stderr } = this.#child;
    stderr?.on("data", (bytes: Buffer) => this.#words.add(bytes));
    for (const stream of [stdout, stderr]) {
      const output = new ProgramOutput("mount-s3", options.outputLog);
      stream?.on("data", (bytes: Buffer) => output.add(bytes));
      stream?.once("end", () => output.end());
    }
    this.#end = endOf(this.#child);
    this.#ready.promise.catch(() => {}); // whoever waits for it hears of it
    this.ended = this.#run(fuseFd);
  }

  /** Resolves when files can be used; rejects with its own last words. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** It looks into the file again when it next has a reason to. */
  rekey(credentials: Credentials | null): void {
    this.#keys.write(credentials);
  }

  finish(): void {
    if (this.#finishing) return;
    this.#finishing = true;
    const timers = [
      setTimeout(() => this.#child.kill("SIGTERM"), LEAVE_WITHIN_MS),
      setTimeout(() => this.#child.kill("SIGKILL"), KILL_AFTER_MS),
    ];
    void this.#end.then(() => timers.forEach((timer) => clearTimeout(timer)));
  }

  kill(): void {
    this.#finishing = true;
    this.#child.kill("SIGKILL");
  }

  replaceEngine(): void {
    this.#options.log.warn("mount-s3 can't be replaced on a running mount: it stays");
  }

  async #run(fuseFd: number): Promise<number> {
    const isServing = await this.#hasBegun(fuseFd).finally(() => closeSync(fuseFd));
    if (isServing) this.#ready.resolve();
    const end = await this.#end;
    if (!isServing) this.#ready.reject(this.#failure(end));
    else if (!this.#finishing) this.#options.onDeath(`mount-s3 has ended: ${this.#cause(end)}`);
    return end.code ?? 1;
  }

  /**
   * The kernel's first request waits in the queue from mount(2) on, and all others wait for its
   * answer. mount-s3 takes it once it has asked the bucket. False: it has ended before. An error
   * says that the connection is over: whoever asked for the mount has given up.
   */
  async #hasBegun(fuseFd: number): Promise<boolean> {
    let isOver = false;
    const over = this.#end.then(() => (isOver = true));
    for (;;) {
      const events = eventsOf({ fd: fuseFd, events: POLLIN });
      if (events === 0) return true;
      if ((events & POLLERR) !== 0) this.kill();
      await Promise.race([over, sleep(LOOK_EVERY_MS)]);
      if (isOver) return false;
    }
  }

  #failure(end: End): Failure {
    const { program } = this.#options;
    if (end.error !== undefined) {
      return new Failure("refused", `can't start ${program}: ${end.error.message}`, end.error);
    }
    const kind = end.code === USAGE_STATUS ? "invalid" : "remote";
    return new Failure(kind, `mount-s3 ended before it served: ${this.#cause(end)}`);
  }

  #cause(end: End): string {
    if (countOomKills() > this.#oomKills) return "out of memory";
    const words = this.#words.text;
    const how = describe({ ...end, orderly: false });
    return words === "" ? how : `${how}: ${words}`;
  }
}

/** As its command line wants them. Bucket and place first: nothing after them is taken for one. */
export function mountS3Args({ bucket, args }: MountSpec): string[] {
  const left = args.filter((arg) => !OF_THE_MOUNT.has(arg));
  return [bucket, `/dev/fd/${CHILD_FUSE_FD}`, "--foreground", ...left];
}

/** The volume's settings, the pod's way to the network, and where the keys are: nothing else. */
export function mountS3Environment(
  spec: MountSpec,
  keys: Readonly<Record<string, string>>,
  own: Environment,
): Environment {
  const { NODE_EXTRA_CA_CERTS: _ours, ...passed } = podEnvironment(spec.env, own);
  const bundle = own["AWS_CA_BUNDLE"];
  return { ...passed, ...(bundle === undefined ? {} : { AWS_CA_BUNDLE: bundle }), ...keys };
}

/** "close", not "exit": only then has everything that it said arrived. */
function endOf(child: ChildProcess): Promise<End> {
  return new Promise((resolve) => {
    child.once("close", (code, signal) => resolve({ code, signal }));
    child.on("error", (error) => {
      if (child.pid === undefined) resolve({ code: 1, signal: null, error });
    });
  });
}

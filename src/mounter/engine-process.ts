import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import * as z from "zod";
import { FAILURE_KINDS, Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import type { MountRequest } from "../handover/messages.ts";

/** Where the child finds what it inherits; 0 to 2 are the usual ones. */
const FUSE_FD = 3;
const SLOTS_FD = 4;
const KILLED = 128;
const POOL_THREADS = "12"; // those that wait in read(2) on the device, and some for the replies

/** As its own words come: they are cut to what the socket carries only where they go on. */
const Told = z.union([
  z.object({ did: z.enum(["ready", "finished"]) }),
  z.object({ did: z.literal("failed"), kind: z.enum(FAILURE_KINDS), message: z.string() }),
]);

/** One engine: a child process that holds the descriptors and serves the bucket. */
export class EngineProcess {
  /** How it ended: 0 when everything acknowledged is in S3. */
  readonly ended: Promise<number>;
  readonly #child: ChildProcess;
  readonly #ready = Promise.withResolvers<void>();

  /** The descriptors are inherited: the caller may close its own afterwards. */
  constructor(request: MountRequest, fds: { readonly fuse: number; readonly slots: number }) {
    // The bundle, or its source: no word after it is ever Node's.
    const [, program = ""] = process.argv;
    const args = [program, "mount", request.bucket, `/dev/fd/${FUSE_FD}`, ...request.args];
    this.#child = spawn(process.execPath, args, {
      env: environmentOf(request, process.env),
      stdio: ["ignore", "inherit", "inherit", fds.fuse, fds.slots, "ipc"],
    });
    this.ended = new Promise((resolve) => {
      // "close", not "exit": only then has everything that it told arrived.
      this.#child.once("close", (code) => resolve(code ?? KILLED));
      this.#child.once("error", () => resolve(1));
    });
    this.#ready.promise.catch(() => {}); // whoever waits for it hears of it
    void this.ended.then((code) => {
      this.#ready.reject(new Failure("remote", `the engine ended with ${code} before it served`));
    });
    this.#child.on("message", (message) => this.#take(message));
    this.#tell({ do: "start", slotsFd: SLOTS_FD, credentials: request.credentials });
  }

  /** Resolves when it serves; rejects with the engine's own words when it can't. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Asks it to complete what was acknowledged and to end. */
  finish(): void {
    this.#tell({ do: "finish" });
  }

  /** Ends it for certain: for one that serves nothing. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  #tell(message: object): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  #take(message: unknown): void {
    const told = Told.safeParse(message);
    if (!told.success) return;
    if (told.data.did === "ready") this.#ready.resolve();
    if (told.data.did === "failed") {
      this.#ready.reject(new Failure(told.data.kind, told.data.message));
    }
  }
}

/**
 * What the engine's process may know: its settings, and the CAs that an administrator has given to
 * the pod. Nothing else is inherited, such as a variable that changes how Node starts.
 */
export function environmentOf({ env }: MountRequest, own: Environment): Environment {
  const authorities = own["NODE_EXTRA_CA_CERTS"];
  return {
    ...env,
    ...(authorities === undefined ? {} : { NODE_EXTRA_CA_CERTS: authorities }),
    UV_THREADPOOL_SIZE: POOL_THREADS,
  };
}

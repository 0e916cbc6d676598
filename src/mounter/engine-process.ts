import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import * as z from "zod";
import { Failure } from "../base/failure.ts";
import type { HandoverAnswer, MountRequest } from "../handover/messages.ts";
import { HandoverAnswer as Answer } from "../handover/messages.ts";

/** Where the child finds what it inherits; 0 to 2 are the usual ones. */
const FUSE_FD = 3;
const SLOTS_FD = 4;
const POOL_THREADS = "12"; // those that wait in read(2) on the device, and some for the replies

const Told = z.custom<HandoverAnswer>((value) => Answer.safeParse(value).success);

/** One engine: a child process that holds the descriptors and serves the bucket. */
export class EngineProcess {
  /** How it ended: 0 when everything acknowledged is in S3. */
  readonly ended: Promise<number>;
  readonly #child: ChildProcess;
  readonly #ready = Promise.withResolvers<void>();

  /** The descriptors are inherited: the caller may close its own afterwards. */
  constructor(request: MountRequest, fds: { readonly fuse: number; readonly slots: number }) {
    const [, program = ""] = process.argv;
    const args = [program, "mount", request.bucket, `/dev/fd/${FUSE_FD}`, ...request.args];
    this.#child = spawn(process.execPath, args, {
      env: { ...request.env, UV_THREADPOOL_SIZE: POOL_THREADS },
      stdio: ["ignore", "inherit", "inherit", fds.fuse, fds.slots, "ipc"],
    });
    this.ended = new Promise((resolve) => {
      this.#child.once("exit", (code, signal) => resolve(code ?? (signal === null ? 1 : 128)));
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

import { closeSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { serveHandover } from "../handover/handover-server.ts";
import { SOCKET_NAME } from "../handover/messages.ts";
import type { HandoverAnswer, HandoverRequest, MountRequest } from "../handover/messages.ts";
import { podEnvironment } from "../supervisor/engine-process.ts";
import { MOUNT_FDS } from "../sys/mount-fds.ts";
import { Supervisor } from "../supervisor/supervisor.ts";

/**
 * The first process of a Mountpoint Pod: takes one mount, keeps its engine, and ends with it. The
 * pod's result is its result: 0, hence Succeeded, only when nothing acknowledged is missing in S3.
 */
export class Mounter {
  readonly #log: Log;
  readonly #over = Promise.withResolvers<number>();
  #supervisor: Supervisor | undefined;
  #serving = false;
  #leaving = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Resolves with the exit code, when the mount has ended. */
  async run(commDir: string): Promise<number> {
    const served = serveHandover(
      join(commDir, SOCKET_NAME),
      (...a) => this.#handle(...a),
      this.#log,
    );
    return Promise.race([served, this.#over.promise]);
  }

  /**
   * A pod is told to end before its workloads have: without an engine it can, with one it stays.
   */
  terminate(): void {
    this.#leaving = true;
    if (this.#supervisor === undefined) this.#end(0);
    else this.#log.info("told to end: staying until the mount is let go");
  }

  /** The program may be another one by now: an upgrade of a mount that stays. */
  replaceEngine(): void {
    this.#supervisor?.replaceEngine();
  }

  async #handle(request: HandoverRequest, fds: readonly number[]): Promise<HandoverAnswer> {
    switch (request.do) {
      case "mount":
        return this.#mount(request, fds);
      case "finish":
        closeAll(fds);
        return this.#finish();
      default:
        return request satisfies never;
    }
  }

  async #mount(request: MountRequest, fds: readonly number[]): Promise<HandoverAnswer> {
    const [fuse, slots, journal, spool] = fds;
    const all = fuse !== undefined && slots !== undefined && journal !== undefined;
    if (!all || spool === undefined || fds.length !== MOUNT_FDS.length) {
      closeAll(fds);
      throw new Failure("invalid", `${fds.length} descriptors came, not ${MOUNT_FDS.join(", ")}`);
    }
    if (this.#supervisor !== undefined) {
      closeAll(fds);
      throw new Failure("busy", "this pod serves a mount already");
    }
    const { bucket, credentials } = request;
    const args = [bucket, "/dev/fd/0", ...request.args]; // a place that the engine does not use
    const env = podEnvironment(request.env, process.env);
    const spec = { args, env, credentials, mountedByUs: true };
    const supervisor = new Supervisor(spec, { fuse, slots, journal, spool }, { log: this.#log });
    this.#supervisor = supervisor;
    await this.#started(supervisor);
    return { did: "ready" };
  }

  /** A first start that failed leaves the pod as it was, so that the next try can succeed. */
  async #started(supervisor: Supervisor): Promise<void> {
    try {
      await supervisor.ready;
    } catch (error) {
      await supervisor.ended;
      this.#supervisor = undefined;
      if (this.#leaving) this.#end(0);
      throw error;
    }
    this.#serving = true;
    void supervisor.ended.then((code) => {
      this.#log.info({ code }, "the mount ended");
      this.#end(code);
    });
  }

  async #finish(): Promise<HandoverAnswer> {
    const code = await this.#stopped();
    this.#end(code);
    if (code === 0) return { did: "finished" };
    return { did: "failed", kind: "remote", message: `the mount ended with ${code}` };
  }

  /** An engine that never served has acknowledged nothing: there is nothing to wait for. */
  async #stopped(): Promise<number> {
    const supervisor = this.#supervisor;
    if (supervisor === undefined) return 0;
    if (this.#serving) supervisor.finish();
    else supervisor.kill();
    const code = await supervisor.ended;
    return this.#serving ? code : 0;
  }

  /** In a later turn: an answer that says so is on its way before the process ends. */
  #end(code: number): void {
    setImmediate(() => this.#over.resolve(code));
  }
}

function closeAll(fds: readonly number[]): void {
  for (const fd of fds) closeSync(fd);
}

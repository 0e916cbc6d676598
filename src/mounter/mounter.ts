import { closeSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { serveHandover } from "../handover/handover-server.ts";
import { DESCRIPTORS, SOCKET_NAME } from "../handover/messages.ts";
import type { HandoverAnswer, HandoverRequest, MountRequest } from "../handover/messages.ts";
import { EngineProcess } from "./engine-process.ts";

/**
 * The first process of a Mountpoint Pod: takes one mount, keeps its engine, and ends with it. The
 * pod's result is its result: 0, hence Succeeded, only when nothing acknowledged is missing in S3.
 */
export class Mounter {
  readonly #log: Log;
  readonly #over = Promise.withResolvers<number>();
  #engine: EngineProcess | undefined;
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
    if (this.#engine === undefined) this.#end(0);
    else this.#log.info("told to end: staying until the mount is let go");
  }

  async #handle(request: HandoverRequest, fds: readonly number[]): Promise<HandoverAnswer> {
    try {
      switch (request.do) {
        case "mount":
          return await this.#mount(request, fds);
        case "finish":
          return await this.#finish();
        default:
          return request satisfies never;
      }
    } finally {
      // An engine that can't resume must be the only holder: its death then ends the connection.
      for (const fd of fds) closeSync(fd);
    }
  }

  async #mount(request: MountRequest, fds: readonly number[]): Promise<HandoverAnswer> {
    const [fuse, slots] = fds;
    if (fuse === undefined || slots === undefined || fds.length !== DESCRIPTORS.length) {
      throw new Failure("invalid", `${fds.length} descriptors came, not ${DESCRIPTORS.join(", ")}`);
    }
    if (this.#engine !== undefined) throw new Failure("busy", "this pod serves a mount already");
    const engine = new EngineProcess(request, { fuse, slots });
    this.#engine = engine;
    await this.#started(engine);
    return { did: "ready" };
  }

  /** A first start that failed leaves the pod as it was, so that the next try can succeed. */
  async #started(engine: EngineProcess): Promise<void> {
    try {
      await engine.ready;
    } catch (error) {
      engine.kill();
      await engine.ended;
      this.#engine = undefined;
      if (this.#leaving) this.#end(0);
      throw error;
    }
    this.#serving = true;
    void engine.ended.then((code) => {
      this.#log.info({ code }, "the engine ended");
      this.#end(code);
    });
  }

  async #finish(): Promise<HandoverAnswer> {
    const code = await this.#stopped();
    this.#end(code);
    if (code === 0) return { did: "finished" };
    return { did: "failed", kind: "remote", message: `the engine ended with ${code}` };
  }

  /** An engine that never served has acknowledged nothing: there is nothing to wait for. */
  async #stopped(): Promise<number> {
    const engine = this.#engine;
    if (engine === undefined) return 0;
    if (this.#serving) engine.finish();
    else engine.kill();
    const code = await engine.ended;
    return this.#serving ? code : 0;
  }

  /** In a later turn: an answer that says so is on its way before the process ends. */
  #end(code: number): void {
    setImmediate(() => this.#over.resolve(code));
  }
}

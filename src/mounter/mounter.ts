import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { HandoverServer } from "../handover/handover-server.ts";
import { SOCKET_NAME } from "../handover/messages.ts";
import type {
  Credentials,
  HandoverAnswer,
  HandoverRequest,
  MountRequest,
  MountSpec,
} from "../handover/messages.ts";
import { podEnvironment } from "../supervisor/engine-process.ts";
import { closeAll, listOf, MOUNT_FDS, mountFdsOf } from "../sys/mount-fds.ts";
import type { MountFds } from "../sys/mount-fds.ts";
import { sendWithFds } from "../sys/unix-socket.ts";
import { Supervisor } from "../supervisor/supervisor.ts";

interface Served {
  readonly spec: MountSpec;
  readonly fds: MountFds;
  /** Others have served it before. */
  readonly resume: boolean;
}

/**
 * The first process of a Mountpoint Pod: takes one mount, keeps its engine, and ends with it. The
 * pod's result is its result: 0, hence Succeeded, only when nothing acknowledged is missing in S3.
 */
export class Mounter {
  readonly #log: Log;
  readonly #over = Promise.withResolvers<number>();
  readonly #server: HandoverServer;
  #supervisor: Supervisor | undefined;
  /** What the supervisor serves: the node service may ask for it, to keep it too. */
  #served: Served | undefined;
  #serving = false;
  #leaving = false;

  constructor(log: Log) {
    this.#log = log;
    this.#server = new HandoverServer((...a) => this.#handle(...a), log);
  }

  /** Resolves with the exit code, when the mount has ended. */
  async run(commDir: string): Promise<number> {
    const served = this.#server.listen(join(commDir, SOCKET_NAME));
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
      case "share":
        return this.#share(fds);
      case "rekey":
        closeAll(fds);
        return this.#rekey(request.credentials);
      case "finish":
        closeAll(fds);
        return this.#finish();
      default:
        return request satisfies never;
    }
  }

  async #mount(request: MountRequest, fds: readonly number[]): Promise<HandoverAnswer> {
    const given = mountFdsOf(fds);
    if (given === undefined) {
      closeAll(fds);
      throw new Failure("invalid", `${fds.length} descriptors came, not ${MOUNT_FDS.join(", ")}`);
    }
    if (this.#supervisor !== undefined) {
      closeAll(fds);
      throw new Failure("busy", "this pod serves a mount already");
    }
    const { do: _do, resume, ...spec } = request;
    this.#supervisor = this.#supervise(spec, resume, given);
    await this.#started(this.#supervisor);
    return { did: "ready" };
  }

  #supervise(spec: MountSpec, resume: boolean, fds: MountFds): Supervisor {
    const { bucket, credentials } = spec;
    const args = [bucket, "/dev/fd/0", ...spec.args]; // a place that the engine does not use
    const env = podEnvironment(spec.env, process.env);
    this.#served = { spec, fds, resume };
    const engine = { args, env, credentials, mountedByUs: true };
    return new Supervisor(engine, fds, {
      log: this.#log,
      resume,
      onLost: (cause) => this.#server.tell({ note: "lost", cause }),
      onRecovered: ({ cause, pauseMs }) => this.#server.tell({ note: "recovered", cause, pauseMs }),
      onGivenUp: (cause) => this.#server.tell({ note: "given-up", cause: cause.slice(0, 1000) }),
    });
  }

  /** Who asks brings a socket, and finds the descriptors in it when the answer comes. */
  #share(fds: readonly number[]): HandoverAnswer {
    const [socket] = fds;
    try {
      if (socket === undefined || fds.length > 1) {
        throw new Failure("invalid", `${fds.length} descriptors came, not one socket`);
      }
      if (this.#served === undefined || !this.#mayOwe) return { did: "shared", mount: null };
      sendWithFds(socket, Buffer.from(" "), listOf(this.#served.fds));
      return { did: "shared", mount: this.#served.spec };
    } finally {
      closeAll(fds);
    }
  }

  #rekey(credentials: Credentials | null): HandoverAnswer {
    if (this.#supervisor === undefined || this.#served === undefined) {
      throw new Failure("absent", "this pod serves no mount");
    }
    this.#served = { ...this.#served, spec: { ...this.#served.spec, credentials } };
    this.#supervisor.rekey(credentials);
    return { did: "rekeyed" };
  }

  /** A first start that failed leaves the pod as it was, so that the next try can succeed. */
  async #started(supervisor: Supervisor): Promise<void> {
    try {
      await supervisor.ready;
    } catch (error) {
      await supervisor.ended;
      this.#supervisor = undefined;
      this.#served = undefined;
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
    const mayOwe = this.#mayOwe;
    if (mayOwe) supervisor.finish();
    else supervisor.kill();
    const code = await supervisor.ended;
    return mayOwe ? code : 0;
  }

  /** Something may have been acknowledged: by this engine, or by one in another container. */
  get #mayOwe(): boolean {
    return this.#serving || this.#served?.resume === true;
  }

  /** In a later turn: an answer that says so is on its way before the process ends. */
  #end(code: number): void {
    setImmediate(() => this.#over.resolve(code));
  }
}

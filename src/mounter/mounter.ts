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
import { withCacheLimit } from "./cache-limit.ts";
import { podEnvironment } from "../supervisor/engine-process.ts";
import { closeAll, listOf, MOUNT_FDS, mountFdsOf } from "../sys/mount-fds.ts";
import type { MountFds } from "../sys/mount-fds.ts";
import { sendWithFds } from "../sys/unix-socket.ts";
import { Supervisor } from "../supervisor/supervisor.ts";

/** Our engines, one after the other, or the one mount-s3. */
type Keeper = Pick<Supervisor, "ready" | "ended" | "rekey" | "finish" | "kill" | "replaceEngine">;

/** Starts mount-s3 on a connection, which is its own from then on. */
export type StartMountS3 = (
  spec: MountSpec,
  fuseFd: number,
  own: { readonly log: Log; readonly onDeath: (cause: string) => void },
) => Keeper;

export interface MounterOptions {
  /** With it that program serves, and nothing else does. */
  readonly mountS3?: StartMountS3 | undefined;
  /** The most that an engine here may keep in a cache. */
  readonly cacheLimitMib?: number | undefined;
}

interface Served {
  readonly spec: MountSpec;
  /** Undefined: they were given away, and nobody here keeps a copy. */
  readonly fds: MountFds | undefined;
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
  readonly #mountS3: StartMountS3 | undefined;
  readonly #cacheLimitMib: number | undefined;
  #keeper: Keeper | undefined;
  /** What the keeper serves: the node service may ask for it, to keep it too. */
  #served: Served | undefined;
  #serving = false;
  #leaving = false;

  constructor(log: Log, { mountS3, cacheLimitMib }: MounterOptions = {}) {
    this.#log = log;
    this.#mountS3 = mountS3;
    this.#cacheLimitMib = cacheLimitMib;
    this.#server = new HandoverServer((...a) => this.#handle(...a), log);
  }

  /** Resolves with the exit code, when the mount has ended. */
  async run(commDir: string): Promise<number> {
    const served = this.#server.listen(join(commDir, SOCKET_NAME));
    return Promise.race([served, this.#over.promise]);
  }

  /** The Mountpoint Pod may be terminated before its workloads: with an engine it stays. */
  terminate(): void {
    this.#leaving = true;
    if (this.#keeper === undefined) this.#end(0);
    else this.#log.info("termination signal received, staying until the mount is released");
  }

  /** The program may be another one by now: an upgrade of a mount that stays. */
  replaceEngine(): void {
    this.#keeper?.replaceEngine();
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
    const { do: _do, resume, ...spec } = request;
    let keeper: Keeper;
    try {
      if (this.#keeper !== undefined) throw new Failure("busy", "this pod serves a mount already");
      keeper = this.#keep(spec, resume, fds);
    } catch (error) {
      closeAll(fds);
      throw error;
    }
    this.#keeper = keeper;
    await this.#started(keeper);
    return { did: "ready" };
  }

  #keep(spec: MountSpec, resume: boolean, fds: readonly number[]): Keeper {
    if (this.#mountS3 !== undefined) return this.#giveAway(this.#mountS3, spec, resume, fds);
    if (spec.engine !== undefined) {
      throw new Failure("invalid", `this pod serves by its own engine, not by ${spec.engine}`);
    }
    const given = mountFdsOf(fds);
    if (given !== undefined) return this.#supervise(spec, resume, given);
    throw new Failure("invalid", `${fds.length} descriptors came, not ${MOUNT_FDS.join(", ")}`);
  }

  #giveAway(start: StartMountS3, spec: MountSpec, resume: boolean, fds: readonly number[]): Keeper {
    if (spec.engine !== "mount-s3" || resume) {
      const wanted = resume ? "goes on with no mount of another" : "is not what was asked for";
      throw new Failure("invalid", `this pod serves by mount-s3, which ${wanted}`);
    }
    const [fuseFd] = fds;
    if (fuseFd === undefined || fds.length > 1) {
      throw new Failure("invalid", `${fds.length} descriptors came, not fuse alone`);
    }
    const onDeath = (cause: string) => this.#server.tell({ note: "given-up", cause });
    const keeper = start({ ...spec, args: this.#argsOf(spec) }, fuseFd, {
      log: this.#log,
      onDeath,
    });
    this.#served = { spec, fds: undefined, resume };
    return keeper;
  }

  #supervise(spec: MountSpec, resume: boolean, fds: MountFds): Supervisor {
    const { bucket, credentials } = spec;
    const args = [bucket, "/dev/fd/0", ...this.#argsOf(spec)]; // the engine uses no such place
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

  #argsOf({ args }: MountSpec): string[] {
    return withCacheLimit(args, this.#cacheLimitMib);
  }

  /** Who asks brings a socket, and finds the descriptors in it when the answer comes. */
  #share(fds: readonly number[]): HandoverAnswer {
    const [socket] = fds;
    try {
      if (socket === undefined || fds.length > 1) {
        throw new Failure("invalid", `${fds.length} descriptors came, not one socket`);
      }
      if (this.#served === undefined || !this.#mayOwe) return { did: "shared", mount: null };
      const { spec, fds: kept } = this.#served;
      if (kept !== undefined) sendWithFds(socket, Buffer.from(" "), listOf(kept));
      return { did: "shared", mount: spec };
    } finally {
      closeAll(fds);
    }
  }

  #rekey(credentials: Credentials | null): HandoverAnswer {
    if (this.#keeper === undefined || this.#served === undefined) {
      throw new Failure("absent", "this pod serves no mount");
    }
    this.#keeper.rekey(credentials);
    this.#served = { ...this.#served, spec: { ...this.#served.spec, credentials } };
    return { did: "rekeyed" };
  }

  /** A first start that failed leaves the pod as it was, so that the next try can succeed. */
  async #started(keeper: Keeper): Promise<void> {
    try {
      await keeper.ready;
    } catch (error) {
      await keeper.ended;
      this.#keeper = undefined;
      this.#served = undefined;
      if (this.#leaving) this.#end(0);
      throw error;
    }
    this.#serving = true;
    void keeper.ended.then((code) => {
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
    const keeper = this.#keeper;
    if (keeper === undefined) return 0;
    const mayOwe = this.#mayOwe;
    if (mayOwe) keeper.finish();
    else keeper.kill();
    const code = await keeper.ended;
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

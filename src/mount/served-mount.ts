import type { Log } from "../base/log.ts";
import { Engine } from "../engine/engine.ts";
import type { PageCache } from "../engine/page-cache.ts";
import { canResend } from "../fuse/negotiate.ts";
import { encodeInvalidPages, encodeStore } from "../fuse/notify.ts";
import { Protocol } from "../fuse/protocol.ts";
import { Session } from "../fuse/session.ts";
import type { Slots } from "../fuse/slots.ts";
import { exitNow } from "../sys/exit-now.ts";
import { allocateLarge } from "../sys/large-pages.ts";
import { admission } from "./admission.ts";
import type { OpenedBucket } from "./bucket-store.ts";
import { Crowding } from "./crowding.ts";
import { EngineFileSystem } from "./engine-file-system.ts";
import type { DurableMemory } from "./durable-memory.ts";
import type { MountOptions } from "./mount-options.ts";

/** A program that has not noticed the end of its mount may go on asking for ever. */
const DRAIN_LIMIT_MS = 1_000;

export interface ServedMountOptions {
  readonly fuseFd: number;
  readonly slots: Slots;
  readonly memory: DurableMemory;
  readonly bucket: OpenedBucket;
  readonly options: MountOptions;
  /** Whether it was mounted by us, so with default_permissions: the kernel insists on it. */
  readonly mountedByUs: boolean;
  readonly log: Log;
}

/** One FUSE connection served by one engine, from the first read to the last upload. */
export class ServedMount {
  /** The kernel's INIT is answered: files can be used. */
  readonly ready: Promise<void>;
  readonly #engine: Engine;
  readonly #session: Session;
  readonly #log: Log;

  constructor(given: ServedMountOptions) {
    const { fuseFd, slots, memory, bucket, options, mountedByUs, log } = given;
    const { promise, resolve } = Promise.withResolvers<void>();
    const { journal, saved } = memory;
    let connection = saved?.connection;
    const startedMs = connection?.startedMs ?? Date.now();
    this.ready = promise;
    this.#log = log;
    const { store, reader } = bucket;
    const pages: PageCache = {
      store: (id, bytes) => this.#session.notify(encodeStore(id, bytes.length), bytes),
      drop: (id) => this.#session.notify(encodeInvalidPages(id)),
    };
    const onLostUpload = (error: unknown) => log.error({ err: error }, "upload failed after close");
    const { blockedWritesMax } = slots;
    this.#engine = new Engine(store, { ...options.engine, blockedWritesMax }, memory, {
      reader,
      pages,
      allocate: allocateLarge,
      onLostUpload,
    });
    const engine = this.#engine;
    journal.state = function* records() {
      if (connection !== undefined) yield connection;
      yield* engine.records();
    };
    const crowding = new Crowding(this.#engine.table, options.engine.inodesMax, {
      notify: (message) => this.#session.notify(message),
      journal,
      onThinned: (inodes) => log.debug({ inodes }, "inodes thinned"),
    });
    journal.onFull = () => crowding.check();
    const fileSystem = new EngineFileSystem(this.#engine, {
      config: options.engine,
      startedMs,
      admits: admission(options.lets, process.getuid?.() ?? 0),
      crowding,
      onLostUpload,
    });
    const protocol = new Protocol(fileSystem, {
      idmap: mountedByUs && options.lets === "all",
      maxWriteBytes: slots.maxWriteBytes,
      onNegotiated: (negotiated) => {
        log.debug({ ...negotiated }, "connection negotiated");
        const { minor, flags, flags2 } = negotiated;
        connection = { is: "connection", startedMs, minor, flags, flags2 };
        journal.note(connection);
        resolve();
      },
      onBug: (error, opcode) => log.error({ err: error, opcode }, "request failed by a bug"),
    });
    this.#session = new Session(fuseFd, slots, protocol, {
      beforeDone: () => journal.commit(),
      onLostReply: (error) => log.error({ err: error }, "reply not taken by the kernel"),
    });
    process.once("exit", (status) => {
      if (this.#session.isNotifying) exitNow(status);
    });
    this.#session.resume(connection !== undefined && canResend(connection) && !options.hidesResend);
    if (connection !== undefined) resolve();
  }

  get ended(): Promise<"disconnected" | "stopped"> {
    return this.#session.ended;
  }

  /** Serves no more and changes nothing: a successor finds everything as it is. */
  leave(): number {
    this.#session.stop();
    return 0;
  }

  /** Completes what was closed or synced, aborts what is open. True when nothing closed is lost. */
  async finish(): Promise<boolean> {
    await this.#session.drain(DRAIN_LIMIT_MS);
    const failures = await this.#engine.finish();
    for (const error of failures) this.#log.error({ err: error }, "upload failed at the end");
    this.#session.stop();
    return failures.length === 0;
  }
}

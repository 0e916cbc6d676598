import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { closeMountFds } from "../sys/mount-fds.ts";
import type { MountFds } from "../sys/mount-fds.ts";
import { describe, EngineProcess } from "./engine-process.ts";
import type { EngineEnd, EngineSpec } from "./engine-process.ts";
import { countOomKills } from "./oom-kills.ts";
import { watchOver } from "./watchdog.ts";

const FIRST_PAUSE_MS = 100;
const PAUSE_MAX_MS = 5_000;
/** Who lived this long was well: its death starts a new count of attempts. */
const WELL_AFTER_MS = 10_000;
const GIVE_UP_AFTER_MS = 600_000;
const HEAP_FACTOR_MAX = 4;
/** From an engine's word that it has failed to its end. */
const LEAVE_WITHIN_MS = 2_000;

export interface Recovery {
  readonly cause: string;
  readonly pauseMs: number;
  readonly attempts: number;
}

export interface SupervisorOptions {
  readonly log: Log;
  /** Without an engine for this long the connection is given up: nobody shall wait for ever. */
  readonly giveUpAfterMs?: number;
  /** How often an engine is asked for a sign of life. */
  readonly askEveryMs?: number;
  /** Others have served this connection before: the first engine goes on where they ended. */
  readonly resume?: boolean;
  readonly onLost?: (cause: string) => void;
  readonly onRecovered?: (recovery: Recovery) => void;
  readonly onGivenUp?: (reason: string) => void;
}

/**
 * Keeps a mount alive. It holds the mount's descriptors, so that the death of an engine does not
 * end the connection; and when one has died for certain it starts the next, which goes on.
 */
export class Supervisor {
  /** The exit status of the mount: 0 when every file that was closed is in S3. */
  readonly ended: Promise<number>;
  readonly #fds: MountFds;
  readonly #options: SupervisorOptions;
  readonly #ready = Promise.withResolvers<void>();
  readonly #finishing = new AbortController();
  #spec: EngineSpec;
  #engine: EngineProcess;
  #oomKills = countOomKills();
  #failures = 0;
  /** Raised when an engine has died of its heap's limit: a journal may have too many names. */
  #heapFactor = 1;
  #wanted = true;

  /** Owns the descriptors from now on. */
  constructor(spec: EngineSpec, fds: MountFds, options: SupervisorOptions) {
    this.#spec = spec;
    this.#fds = fds;
    this.#options = options;
    this.#engine = this.#start(options.resume ?? false);
    this.#ready.promise.catch(() => {}); // whoever waits for it hears of it
    this.ended = this.#run().finally(() => closeMountFds(fds));
  }

  /** Resolves when files can be used; rejects with the first engine's own words. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  get enginePid(): number {
    return this.#engine.pid;
  }

  /** This engine and all after it sign with these keys. */
  rekey(credentials: EngineSpec["credentials"]): void {
    this.#spec = { ...this.#spec, credentials };
    this.#engine.rekey(credentials);
  }

  /** Completes files that were closed, aborts those still open, then ends. */
  finish(): void {
    this.#finishing.abort();
    this.#engine.finish();
  }

  /**
   * A new engine on the running mount, from the program as it lies there now: how an upgrade comes
   * in. The old one is ended the hard way, because that way is always tested.
   */
  replaceEngine(): void {
    this.#options.log.info({ pid: this.#engine.pid }, "replacing the engine");
    this.#engine.kill();
  }

  /** Nothing of it is wanted any more: nothing was acknowledged, or all is lost anyway. */
  kill(): void {
    this.#wanted = false;
    this.#finishing.abort();
    this.#engine.kill();
  }

  async #run(): Promise<number> {
    try {
      await this.#engine.ready;
    } catch (error) {
      const end = await this.#endOf(this.#engine);
      // A mount that others have served is not given up for one engine that did not start.
      const goesOn = this.#options.resume === true && !end.orderly && this.#wanted;
      if (!goesOn || !(await this.#recover(this.#causeOf(end)))) {
        this.#ready.reject(error);
        return end.code ?? 1;
      }
    }
    this.#ready.resolve();
    for (;;) {
      const startedMs = performance.now();
      const end = await this.#engine.ended;
      if (end.orderly || !this.#wanted) return end.code ?? 1;
      if (performance.now() - startedMs > WELL_AFTER_MS) {
        this.#failures = 0;
        this.#heapFactor = 1; // names that were too many were forgotten meanwhile
      }
      if (!(await this.#recover(this.#causeOf(end)))) return 1;
    }
  }

  /** False when there is no way: then the connection ends with our descriptors. */
  async #recover(cause: string): Promise<boolean> {
    const { log, giveUpAfterMs = GIVE_UP_AFTER_MS } = this.#options;
    const diedMs = performance.now();
    this.#options.onLost?.(cause);
    for (let attempts = 1; ; attempts++) {
      if (this.#failures > 1) await this.#pause();
      if (!this.#wanted) return false;
      this.#engine = this.#start(true);
      if (this.#finishing.signal.aborted) this.#engine.finish();
      try {
        await this.#engine.ready;
        const pauseMs = Math.round(performance.now() - diedMs);
        log.warn({ cause, pauseMs, attempts, pid: this.#engine.pid }, "engine recovered");
        this.#options.onRecovered?.({ cause, pauseMs, attempts });
        return true;
      } catch (error) {
        const next = await this.#endOf(this.#engine);
        if (next.orderly && this.#finishing.signal.aborted) return true; // it had nothing to serve
        const failed = this.#causeOf(next);
        const reason = error instanceof Error ? error.message : failed;
        const hopeless = error instanceof Failure && error.kind === "invalid";
        if (hopeless || performance.now() - diedMs > giveUpAfterMs) {
          log.error({ cause, reason, attempts }, "the mount is given up");
          this.#options.onGivenUp?.(reason);
          return false;
        }
        log.error({ cause, reason, attempts }, "the next engine failed too");
      }
    }
  }

  /** Cut short by the wish to end; who fails after that is waited for as ever. */
  async #pause(): Promise<void> {
    const { signal } = this.#finishing;
    const options = signal.aborted ? {} : { signal };
    await sleep(pauseAfter(this.#failures), undefined, options).catch(() => {});
  }

  /** Of one that has failed. It says how by its exit status: only one that stays is killed. */
  async #endOf(engine: EngineProcess): Promise<EngineEnd> {
    const timer = setTimeout(() => engine.kill(), LEAVE_WITHIN_MS);
    try {
      return await engine.ended;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Also counts what was the engine's own fault: that is what a pause may help against. */
  #causeOf(end: EngineEnd): string {
    const kills = countOomKills();
    const outOfMemory = kills > this.#oomKills;
    this.#oomKills = kills;
    // V8 aborts at the limit of the heap: the next engine would read the same journal and die.
    if (end.signal === "SIGABRT") {
      this.#heapFactor = Math.min(2 * this.#heapFactor, HEAP_FACTOR_MAX);
    }
    if (outOfMemory || end.signal !== "SIGKILL") this.#failures += 1;
    return outOfMemory ? "out of memory" : describe(end);
  }

  #start(resume: boolean): EngineProcess {
    const engine = new EngineProcess(this.#spec, this.#fds, {
      resume,
      heapFactor: this.#heapFactor,
    });
    const { log, askEveryMs } = this.#options;
    const onHanging = () => {
      log.error({ pid: engine.pid }, "the engine hangs: killing it");
      engine.kill();
    };
    watchOver(engine, onHanging, askEveryMs);
    return engine;
  }
}

function pauseAfter(failures: number): number {
  return Math.min(PAUSE_MAX_MS, FIRST_PAUSE_MS * 2 ** (failures - 2));
}

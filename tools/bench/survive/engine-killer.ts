import type { ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { childrenOf } from "../../stack/processes.ts";

const LOOK_AGAIN_MS = 1;

/** Ends the engine of a mount the hard way, as often as it is told to. */
export class EngineKiller {
  /** When each kill was, by the clock that all processes share. */
  readonly killedAtMs: number[] = [];
  readonly #supervisorPid: number;
  #lastPid = 0;
  #serving = Promise.withResolvers<void>();

  /** The process of a mount that serves already, with its log on stdout. */
  constructor({ pid = 0, stdout }: Pick<ChildProcess, "pid" | "stdout">) {
    if (stdout === null) throw new Error("the supervisor's log is needed");
    this.#supervisorPid = pid;
    this.#serving.resolve();
    createInterface({ input: stdout }).on("line", (line) => {
      if (!line.includes('"msg":"engine recovered"')) return;
      const { pid: enginePid } = JSON.parse(line) as { pid: number };
      if (enginePid !== this.#lastPid) this.#serving.resolve(); // else it is dead already
    });
  }

  get kills(): number {
    return this.killedAtMs.length;
  }

  get supervisorPid(): number {
    return this.#supervisorPid;
  }

  /** The engine as it is now, serving or not; undefined between two. */
  get enginePid(): number | undefined {
    return childrenOf(this.#supervisorPid)[0];
  }

  /** No kill is left that the mount has not recovered from. */
  untilServing(): Promise<void> {
    return this.#serving.promise;
  }

  /** Kills the engine, or the next one when this one is dead already. Resolves at its death. */
  async kill(): Promise<void> {
    let pid = this.enginePid;
    while (pid === undefined || pid === this.#lastPid) {
      await delay(LOOK_AGAIN_MS);
      pid = this.enginePid;
    }
    this.#lastPid = pid;
    this.#serving = Promise.withResolvers<void>();
    this.killedAtMs.push(sharedMs());
    process.kill(pid, "SIGKILL");
    while (this.enginePid === pid) await delay(LOOK_AGAIN_MS);
  }

  /** Until told to end: serves again, then a random time of at most that long, then the kill. */
  async killServing(delayMaxMs: number, ends: AbortSignal): Promise<void> {
    while (!ends.aborted) {
      await this.untilServing();
      await delay(Math.random() * delayMaxMs);
      if (!ends.aborted) await this.kill();
    }
  }
}

/** CLOCK_MONOTONIC: the same in every process of the machine. */
export function sharedMs(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}

import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import type { SoakLedger } from "./soak-ledger.ts";
import { Random } from "./soak-random.ts";
import { sharedMs } from "./soak-report.ts";
import type { Report } from "./soak-report.ts";

/** After a request has stalled: its program waits for it by then, and nothing else has come. */
const STALL_SEEN_MS = 300;
const PROGRAM = join(import.meta.dirname, "soak-program.ts");

export interface CrewPlan {
  readonly dir: string;
  readonly programs: number;
  readonly seed: number;
  readonly durationMs: number;
}

interface Member {
  readonly child: ChildProcess;
  readonly name: string;
  killedAt?: number;
}

/** The programs of the soak. One that was killed is followed by another, until time is over. */
export class SoakCrew implements AsyncDisposable {
  readonly endAtMs: number;
  readonly #plan: CrewPlan;
  readonly #ledger: SoakLedger;
  readonly #random: Random;
  readonly #device: number;
  readonly #members = new Set<Member>();
  readonly #all: Promise<unknown>;
  #recruits = true;
  kills = 0;
  interruptions = 0;

  constructor(plan: CrewPlan, ledger: SoakLedger) {
    this.#plan = plan;
    this.#ledger = ledger;
    this.#random = new Random(plan.seed);
    this.#device = statSync(plan.dir).dev;
    this.endAtMs = sharedMs() + plan.durationMs;
    const places = Array.from({ length: plan.programs }, (_, n) => this.#fill(`p${n}`));
    this.#all = Promise.all(places);
  }

  /** No program runs any more, and all that they told is in the ledger. */
  get ended(): Promise<unknown> {
    return this.#all;
  }

  killOne(): void {
    const alive = [...this.#members].filter(({ killedAt }) => killedAt === undefined);
    const member = alive[this.#random.between(0, alive.length)];
    if (member !== undefined) this.#kill(member);
  }

  /**
   * A program that waits for that file gets a signal or is killed. A close is not interrupted by a
   * signal: Node would call it a success, although the upload goes on.
   */
  async interruptOneAt(file: string): Promise<void> {
    await delay(STALL_SEEN_MS);
    for (const member of this.#members) {
      const call = this.#ledger.pendingCallOf(member.name, file);
      if (call === undefined || member.killedAt !== undefined) continue;
      this.interruptions += 1;
      if (call === "close" || this.#random.chance(0.5)) return this.#kill(member);
      this.#ledger.interrupted(member.name);
      member.child.kill("SIGUSR2");
      return;
    }
  }

  async stop(): Promise<void> {
    this.#recruits = false;
    for (const member of this.#members) this.#kill(member);
    await this.#all;
  }

  /** Programs that end from now on are not followed by others. */
  close(): void {
    this.#recruits = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #kill(member: Member): void {
    this.kills += 1;
    member.killedAt ??= sharedMs();
    member.child.kill("SIGKILL");
  }

  /** Programs follow each other under one name until time is over. */
  async #fill(place: string): Promise<void> {
    for (let life = 0; this.#recruits && sharedMs() < this.endAtMs; life++) {
      await this.#run(`${place}.${life}`);
    }
  }

  async #run(name: string): Promise<void> {
    const seed = this.#random.between(0, 2 ** 31);
    const { dir } = this.#plan;
    const args = [dir, this.#device, name, seed, this.endAtMs].map(String);
    const command = ["--pdeathsig", "KILL", "--", process.execPath, PROGRAM, ...args];
    const child = spawn("setpriv", command, { stdio: ["ignore", "pipe", "pipe"] });
    const member: Member = { child, name };
    this.#members.add(member);
    const said = text(child.stderr);
    createInterface({ input: child.stdout }).on("line", (line) =>
      this.#ledger.report(name, JSON.parse(line) as Report),
    );
    const { promise, resolve } = Promise.withResolvers<number | null>();
    child.once("close", resolve);
    const status = await promise;
    this.#members.delete(member);
    this.#ledger.died(name, sharedMs(), member.killedAt);
    const isOver = sharedMs() >= this.#ledger.endsAt;
    if (status !== 0 && status !== null && !isOver) {
      this.#ledger.odd("a program fails", `${name} with ${status}: ${await said}`);
    }
  }
}

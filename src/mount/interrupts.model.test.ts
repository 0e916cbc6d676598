import assert from "node:assert/strict";
import { constants } from "node:os";
import { test } from "node:test";
import * as fc from "fast-check";
import { ROOT_NODEID } from "../engine/inode-table.ts";
import { ErrnoError } from "./test-kernel.ts";
import { TestWorld } from "./test-world.ts";
import type { WorldPlan } from "./test-world.ts";

/** FULL=1: 2,000 sequences however long they take; FULL=20: twenty times as many. */
const FULL = Number(process.env["FULL"] ?? 0);
const LIMIT_MS = 3_000;
const NAME = "f";
/** An operation that has not ended by then waits for what S3 stalls. */
const PATIENCE_TURNS = 60;
const { EINTR, EIO, ENOENT, EPERM, ESTALE, EEXIST } = constants.errno;
/** S3 goes on with what it was asked for. What the caller wanted may be refused for that. */
const EXPECTED: ReadonlySet<number> = new Set([EINTR, EIO, ENOENT, EPERM, ESTALE, EEXIST]);

interface Step {
  /**
   * `write`: opens, writes and closes. `begin`: opens, writes and syncs; `continue` writes on to
   * that and closes it.
   */
  readonly do: "write" | "begin" | "continue" | "unlink" | "read";
  /** The engine is killed before the step. */
  readonly crashes: boolean;
  /** S3 stalls at this call; then a signal comes, and the next step begins. */
  readonly stalls: "head" | "list" | "put" | "delete" | undefined;
  /** How many steps later S3 goes on, unless a step waits for that. */
  readonly later: number;
  /** HEADs and DELETEs fail in so many steps, of which this is the first. */
  readonly away: number;
  /** Equal contents have equal ETags, so that a DELETE of one version can hit another one. */
  readonly isCommon: boolean;
}

/** Most deletions hang and most other calls succeed: else few sequences would find anything. */
const STALLS: Readonly<Record<Step["do"], readonly Step["stalls"][]>> = {
  write: [undefined, undefined, undefined, "head", "list", "put"],
  begin: [undefined, undefined, undefined, "head", "list", "put"],
  continue: [undefined, undefined, "put"],
  unlink: [undefined, "head", "list", ...Array<Step["stalls"]>(5).fill("delete")],
  read: [undefined, undefined, undefined, undefined, "head", "list"],
};
const VERBS = ["write", "write", "begin", "continue", "unlink", "read", "read"] as const;
/** Outages are short, and often the reason for which an engine is replaced. */
const TROUBLES: readonly Pick<Step, "crashes" | "away">[] = [
  ...Array.from({ length: 8 }, () => ({ crashes: false, away: 0 })),
  { crashes: false, away: 1 },
  { crashes: true, away: 0 },
  { crashes: true, away: 0 },
  { crashes: true, away: 1 },
  { crashes: true, away: 1 },
];

const anyStep: fc.Arbitrary<Step> = fc.constantFrom(...VERBS).chain((verb) =>
  fc
    .record({
      stalls: fc.constantFrom(...STALLS[verb]),
      later: fc.nat({ max: 4 }),
      trouble: fc.constantFrom(...TROUBLES),
      isCommon: fc.boolean(),
    })
    .map(({ trouble, ...step }) => ({ do: verb, ...step, ...trouble })),
);

async function wait(isOver: () => boolean): Promise<void> {
  for (let turn = 0; turn < PATIENCE_TURNS && !isOver(); turn++) {
    await new Promise(setImmediate);
  }
}

interface OpenHandle {
  readonly nodeid: number;
  readonly handle: number;
  readonly content: string;
}

/** Programs work on one file in turns; all that the file may be by now is known. */
class Interrupted {
  readonly #world: TestWorld;
  /** Contents that are right; undefined: there is no object. */
  #possible = new Set<string | undefined>([undefined]);
  #open: OpenHandle | undefined;
  /** How many steps S3 stays away, with the one under way. */
  #away = 0;
  #stalled: { letGo: () => void; steps: number }[] = [];

  constructor(world: TestWorld) {
    this.#world = world;
  }

  async step(step: Step, content: string): Promise<void> {
    const { do: verb, stalls, later, away } = step;
    this.#away = Math.max(this.#away - 1, away);
    this.#world.isAway = this.#away > 0;
    if (step.crashes) this.#world.kill();
    for (const stalled of this.#stalled) if (stalled.steps-- === 0) stalled.letGo();
    const stall = stalls === undefined ? undefined : this.#world.stall(stalls);
    const work = this.#act(verb, content).catch((error: unknown) => {
      if (!(error instanceof ErrnoError) || !EXPECTED.has(error.errno)) throw error;
    });
    let [isStalled, hasEnded] = [false, false];
    const ended = work.finally(() => (hasEnded = true));
    ended.catch(() => undefined);
    void stall?.begun.then(() => (isStalled = true));
    if (stall !== undefined) this.#stalled.push({ letGo: stall.letGo, steps: later });
    await wait(() => hasEnded || (stall !== undefined && isStalled));
    if (isStalled) {
      this.#world.kernel.interrupt();
      // The protocol's own timer began before this one: the signal has its effect first.
      await new Promise((resolve) => void setTimeout(resolve, 1));
      await wait(() => hasEnded);
    }
    if (!hasEnded) this.#letGo();
    await this.#world.settles(ended);
  }

  async end(): Promise<void> {
    this.#away = 0;
    this.#world.isAway = false;
    this.#letGo();
    if (this.#open !== undefined) await this.step({ ...LAST, do: "continue" }, "end");
    await this.#world.end();
    this.#check(this.#world.bucket.body(NAME)?.toString(), "at the end");
  }

  #letGo(): void {
    for (const { letGo } of this.#stalled.splice(0)) letGo();
  }

  async #act(verb: Step["do"], content: string): Promise<void> {
    if (verb === "unlink") return this.#unlink();
    if (verb === "read") return this.#read();
    if (verb === "continue") return this.#continue(content);
    if (verb === "begin" && this.#open !== undefined) return;
    const { program } = this.#world;
    const opened = { ...(await program.openToWrite(ROOT_NODEID, NAME)), content };
    try {
      await program.writeAt(opened.nodeid, opened.handle, 0, content);
      // From now on its upload may end at any time; the exit of a killed program ends it, too.
      this.#possible.add(content);
      if (verb === "begin") await program.sync(opened.nodeid, opened.handle);
      else await program.flush(opened.nodeid, opened.handle);
      this.#possible = new Set([content]);
      if (verb === "begin") this.#open = opened;
    } finally {
      if (this.#open !== opened) await program.release(opened.nodeid, opened.handle);
    }
  }

  async #continue(more: string): Promise<void> {
    if (this.#open === undefined) return;
    const { program } = this.#world;
    const { nodeid, handle, content } = this.#open;
    this.#open = undefined;
    try {
      await program.writeAt(nodeid, handle, content.length, more);
      this.#possible.add(content + more);
      await program.flush(nodeid, handle);
      this.#possible = new Set([content + more]);
    } finally {
      await program.release(nodeid, handle);
    }
  }

  async #unlink(): Promise<void> {
    const { program } = this.#world;
    try {
      await program.lookup(ROOT_NODEID, NAME); // rm(1) asks what it is
      await program.unlink(ROOT_NODEID, NAME);
      this.#possible = new Set([undefined]);
    } catch (error) {
      if (!(error instanceof ErrnoError)) throw error;
      // An engine whose DELETE was executed may have died, and S3 may be away for the next one.
      if (error.errno === EINTR || error.errno === EIO) this.#possible.add(undefined);
      if (error.errno === ENOENT) this.#check(undefined, "unlink");
      throw error;
    }
  }

  async #read(): Promise<void> {
    const { program } = this.#world;
    try {
      const text = await program.read(await program.lookup(ROOT_NODEID, NAME));
      this.#check(text, "read");
      // An open waits for the deletions of its file: none of them is sent afterwards.
      this.#possible.delete(undefined);
    } catch (error) {
      if (!(error instanceof ErrnoError) || error.errno !== ENOENT) throw error;
      this.#check(undefined, "read");
    }
  }

  #check(content: string | undefined, when: string): void {
    const right = [...this.#possible].join(" or ");
    assert(this.#possible.has(content), `${when}: ${content} instead of ${right}`);
  }
}

const LAST: Step = {
  do: "read",
  crashes: false,
  stalls: undefined,
  later: 0,
  away: 0,
  isCommon: false,
};

async function staysRight(steps: readonly Step[], plan: WorldPlan): Promise<void> {
  const world = new TestWorld(plan);
  world.program.hasFailed = true; // what an interrupted close has lost is no news
  const programs = new Interrupted(world);
  for (const [index, step] of steps.entries()) {
    await programs.step(step, step.isCommon ? "<common>" : `<${index}>`);
  }
  await programs.end();
  assert.equal(world.bucket.unfinishedUploads, 0, "unfinished uploads");
}

const step = (verb: Step["do"], more: Partial<Step> = {}): Step => {
  return { ...LAST, do: verb, later: 4, isCommon: true, ...more };
};
/** Each of these has lost a file that was closed, or read, after the interrupted deletion. */
const LOST = [
  [step("begin"), step("unlink", { stalls: "delete" }), step("continue")],
  [step("write"), step("unlink", { stalls: "head" }), step("write")],
  [
    step("write"),
    step("unlink", { stalls: "delete" }),
    step("read", { crashes: true, away: 1 }),
    step("read"),
    step("read", { crashes: true }),
  ],
];
const IMMORTAL: WorldPlan = { lives: [], resends: false, areaBytes: 1 << 18 };
/** Each number is how many instants an engine lives. */
const anyPlan: fc.Arbitrary<WorldPlan> = fc.record({
  lives: fc.array(fc.nat({ max: 100 }), { maxLength: 4 }),
  resends: fc.boolean(),
  areaBytes: fc.constant(1 << 18),
});

test("what is closed without an error stays, whatever was interrupted before it", async (t) => {
  const seed = Number(process.env["SEED"] ?? Date.now() % 0x7fff_ffff);
  t.diagnostic(`SEED=${seed}`);
  const steps = fc.array(anyStep, { minLength: 1, maxLength: 10 });
  await fc.assert(fc.asyncProperty(steps, anyPlan, staysRight), {
    seed,
    examples: LOST.map((lost): [Step[], WorldPlan] => [lost, IMMORTAL]),
    numRuns: 2_000 * Math.max(1, FULL),
    ...(FULL > 0 ? {} : { interruptAfterTimeLimit: LIMIT_MS }),
  });
});

import assert from "node:assert/strict";
import { Failure } from "../base/failure.ts";
import { Engine } from "../engine/engine.ts";
import type { EngineMemory } from "../engine/engine.ts";
import { TEST_CONFIG } from "../engine/test-config.ts";
import { TestMemory } from "../engine/test-memory.ts";
import { Protocol } from "../fuse/protocol.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { testFileSystem } from "./test-file-system.ts";
import { TestKernel } from "./test-kernel.ts";
import { TestProgram } from "./test-program.ts";
import { Life, mortalJournal, mortalPages, mortalSpool, mortalStore } from "./test-life.ts";

const SPOOL_BYTES = 1 << 17;
/** Parts are sent early when memory is short, as S3 and the kernel allow it with larger ones. */
const writePartLimits = { minBytes: 6, countMax: 10_000, writeBytesMax: 8 };
const CONFIG = { ...TEST_CONFIG, writePartLimits };
/** A segment of the spool takes a page, however little it holds. */
const PAGE_BYTES = 4096;
/** The calls by which bytes get into S3. */
const SENDING = new Set(["put", "uploadPart", "completeUpload"]);
/** The calls that look whether an object is there, and the one that deletes it. */
const ASKING = new Set(["head", "findOwn", "delete"]);
const TURNS_MAX = 2_000;

export interface WorldPlan {
  /** How many instants each engine lives; the one after them lives to the end. */
  readonly lives: readonly number[];
  readonly resends: boolean;
  readonly areaBytes: number;
  readonly spoolBytes?: number;
  /** Of the calls by which bytes get into S3, the first of each so many fails without effect. */
  readonly failsEvery?: number;
  /** What happens in the world before the next engine is there. */
  readonly onDeath?: (bucket: MemoryStore) => void;
}

/** For tests: a bucket, a kernel, and one engine after the other between the two. */
export class TestWorld {
  readonly bucket = new MemoryStore();
  readonly kernel: TestKernel;
  readonly program: TestProgram;
  readonly #lives: number[];
  readonly #onDeath: () => void;
  /** Parts that the journal says are sent, as `uploadId partNumber`. */
  readonly #sent = new Set<string>();
  readonly #bugs: unknown[] = [];
  readonly #failsEvery: number;
  /** All that fits into the spool, counted in the engine's own way. */
  readonly #spoolLimitBytes: number;
  #sendingCalls = 0;
  readonly #stalls = new Map<string, { begun: () => void; end: Promise<void> }>();
  deaths = 0;
  /** While S3 is away, every HEAD and every DELETE fails without effect. */
  isAway = false;
  #life!: Life;
  #memory: TestMemory;
  #engine!: Engine;
  #spool!: EngineMemory["spool"];

  constructor(plan: WorldPlan) {
    const { lives, resends, areaBytes, onDeath, spoolBytes = SPOOL_BYTES } = plan;
    this.#failsEvery = plan.failsEvery ?? Infinity;
    this.#spoolLimitBytes = (spoolBytes / PAGE_BYTES) * CONFIG.writePartSizeBytes;
    this.#onDeath = () => onDeath?.(this.bucket);
    this.#lives = [...lives];
    this.kernel = new TestKernel(resends);
    this.program = new TestProgram(this.kernel);
    this.#memory = new TestMemory(areaBytes, spoolBytes);
    this.#start(this.#memory.begin(this.#spoolLimitBytes));
  }

  get spoolBytes(): number {
    return this.#spool.usedBytes;
  }

  get inodes(): number {
    return this.#engine.table.size;
  }

  get engine(): Engine {
    return this.#engine;
  }

  /** S3 stalls at the next such call: `begun` resolves, and the call goes on when it is let go. */
  stall(call: string): { readonly begun: Promise<void>; readonly letGo: () => void } {
    const [begun, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    this.#stalls.set(call, { begun: begun.resolve, end: end.promise });
    return { begun: begun.promise, letGo: end.resolve };
  }

  /** Kills the engine; the next one starts a moment later. */
  kill(): void {
    this.#life.end();
  }

  /** Ends when the work has; fails when it never will. */
  async settles<T>(work: Promise<T>): Promise<T> {
    const UNANSWERED = Symbol("unanswered");
    for (let turn = 0; turn < TURNS_MAX; turn++) {
      await new Promise(setImmediate);
      const result = await Promise.race([work, Promise.resolve(UNANSWERED)]);
      assert.deepEqual(this.#bugs, []);
      if (result !== UNANSWERED) return work;
    }
    throw new Error("a request that is never answered");
  }

  /** Gives back all references, and lets the engine come to rest. */
  async end(): Promise<void> {
    this.forgetAll();
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    assert.deepEqual(this.#bugs, []);
  }

  forgetAll(): void {
    for (const [nodeid, count] of this.kernel.references) this.kernel.forget(nodeid, count);
  }

  checkReferences(): void {
    for (const [nodeid, count] of this.kernel.references) {
      const lookups = this.#engine.table.find(nodeid)?.lookups ?? 0;
      assert(lookups >= count, `nodeid ${nodeid}: ${lookups} references, the kernel has ${count}`);
    }
  }

  #start(memory: ReturnType<TestMemory["resume"]>): void {
    const life = new Life(this.#lives.shift() ?? Infinity, () => this.#die());
    this.#life = life;
    const journal = mortalJournal(memory.journal, life);
    const store = mortalStore(this.bucket, life, (name, args) => this.#checkCall(name, args));
    const pages = mortalPages(this.kernel.pages, life);
    const spool = mortalSpool(memory.spool, life);
    const engine = new Engine(store, CONFIG, { ...memory, journal, spool }, { pages });
    memory.journal.state = () => engine.records();
    this.#engine = engine;
    this.#spool = memory.spool;
    const fileSystem = testFileSystem(engine, CONFIG, (error) => {
      if (!life.ended && !this.program.hasFailed) this.#bugs.push(error);
    });
    const onBug = (error: unknown) => {
      if (!life.ended) this.#bugs.push(error);
    };
    const events = { idmap: false, onNegotiated: () => undefined, onBug };
    const protocol = new Protocol(fileSystem, events, 0);
    if (!life.ended) this.kernel.connect(protocol, life, () => journal.commit());
  }

  /** What it leaves behind is what the next one finds. */
  #die(): void {
    this.deaths += 1;
    this.#memory = this.#memory.copy();
    this.#onDeath();
    setImmediate(() => {
      try {
        const found = this.#memory.resume(this.#spoolLimitBytes);
        for (const { upload } of found.saved?.handles.values() ?? []) {
          const uploadId = upload.created?.uploadId;
          for (const part of upload.sent.keys()) this.#sent.add(`${uploadId} ${part}`);
        }
        this.#start(found);
      } catch (error) {
        this.#bugs.push(error);
      }
    });
  }

  #checkCall(name: string, [, uploadId, part]: readonly unknown[]): Promise<void> | undefined {
    if (SENDING.has(name) && this.#sendingCalls++ % this.#failsEvery === 0) {
      if (this.#failsEvery !== Infinity) throw new Failure("remote", `${name} shall fail`);
    }
    if (name === "uploadPart" && this.#sent.has(`${String(uploadId)} ${String(part)}`)) {
      this.#bugs.push(new Error(`part ${String(part)} is sent again`));
    }
    this.#checkThere(name);
    const stall = this.#stalls.get(name);
    this.#stalls.delete(name);
    stall?.begun();
    return stall?.end.then(() => this.#checkThere(name));
  }

  #checkThere(name: string): void {
    if (this.isAway && ASKING.has(name)) throw new Failure("remote", `${name}: S3 is away`);
  }
}

import assert from "node:assert/strict";
import { Engine } from "../engine/engine.ts";
import type { EngineMemory } from "../engine/engine.ts";
import { TEST_CONFIG } from "../engine/test-config.ts";
import { TestMemory } from "../engine/test-memory.ts";
import { Protocol } from "../fuse/protocol.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { testFileSystem } from "./test-file-system.ts";
import { TestKernel } from "./test-kernel.ts";
import { TestProgram } from "./test-program.ts";
import { Life, mortalJournal, mortalPages, mortalStore } from "./test-life.ts";

const SPOOL_BYTES = 1 << 17;
const TURNS_MAX = 2_000;

export interface WorldPlan {
  /** How many instants each engine lives; the one after them lives to the end. */
  readonly lives: readonly number[];
  readonly resends: boolean;
  readonly areaBytes: number;
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
  deaths = 0;
  #memory: TestMemory;
  #engine!: Engine;
  #spool!: EngineMemory["spool"];

  constructor({ lives, resends, areaBytes, onDeath }: WorldPlan) {
    this.#onDeath = () => onDeath?.(this.bucket);
    this.#lives = [...lives];
    this.kernel = new TestKernel(resends);
    this.program = new TestProgram(this.kernel);
    this.#memory = new TestMemory(areaBytes, SPOOL_BYTES);
    this.#start(this.#memory.begin());
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
    const journal = mortalJournal(memory.journal, life);
    const store = mortalStore(this.bucket, life, (name, args) => this.#checkCall(name, args));
    const pages = mortalPages(this.kernel.pages, life);
    const engine = new Engine(store, TEST_CONFIG, { ...memory, journal }, { pages });
    memory.journal.state = () => engine.records();
    this.#engine = engine;
    this.#spool = memory.spool;
    const fileSystem = testFileSystem(engine, TEST_CONFIG, (error) => this.#bugs.push(error));
    const protocol = new Protocol(fileSystem, {
      idmap: false,
      onNegotiated: () => undefined,
      onBug: (error) => {
        if (!life.ended) this.#bugs.push(error);
      },
    });
    if (!life.ended) this.kernel.connect(protocol, life, () => journal.commit());
  }

  /** What it leaves behind is what the next one finds. */
  #die(): void {
    this.deaths += 1;
    this.#memory = this.#memory.copy();
    this.#onDeath();
    setImmediate(() => {
      try {
        const found = this.#memory.resume();
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

  #checkCall(name: string, [, uploadId, part]: readonly unknown[]): void {
    if (name !== "uploadPart" || !this.#sent.has(`${String(uploadId)} ${String(part)}`)) return;
    this.#bugs.push(new Error(`part ${String(part)} is sent again`));
  }
}

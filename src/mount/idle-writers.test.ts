import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { constants } from "node:fs";
import { test } from "node:test";
import { Engine } from "../engine/engine.ts";
import { GatedStore } from "../engine/test-gated-store.ts";
import { TEST_CONFIG } from "../engine/test-config.ts";
import { TestMemory } from "../engine/test-memory.ts";
import { Spool } from "../journal/spool.ts";
import { memoryBudget } from "./memory-budget.ts";
import { testFileSystem } from "./test-file-system.ts";

const MIB = 1 << 20;
const WRITE_BYTES = 64 * 1024;
const ROOT = 1;
const USER = { pid: 1, owner: "1.1" };
const NEVER = new AbortController().signal;

class SlowStore extends GatedStore {
  override async put(...args: Parameters<GatedStore["put"]>) {
    await this.gate;
    return super.put(...args);
  }
}

/** A mount with the memory that it would have in such a container. */
class Mount {
  readonly store = new SlowStore();
  readonly maxWriteBytes: number;
  readonly #fileSystem;
  #unique = 0;

  constructor(containerBytes: number) {
    const budget = memoryBudget({
      containerBytes,
      machineBytes: 64 * 1024 * MIB,
      targetBytes: undefined,
      inodes: undefined,
      writePartBytes: undefined,
      hasCache: false,
    });
    this.maxWriteBytes = budget.maxWriteBytes;
    const memory = Buffer.alloc(2 * budget.spool.hardBytes + 64 * MIB);
    const durable = { ...new TestMemory().begin(), spool: new Spool(memory, budget.spool) };
    const config = {
      ...TEST_CONFIG,
      writePartSizeBytes: budget.writePartBytes,
      blockedWriteBytes: budget.heldWriteBytes,
    };
    const engine = new Engine(this.store, config, durable);
    durable.journal.state = () => engine.records();
    this.#fileSystem = testFileSystem(engine, config);
  }

  async create(name: string): Promise<number> {
    const user = { uid: 0, gid: 0, pid: USER.pid, unique: this.#next() };
    const { opened } = await this.#fileSystem.create(user, ROOT, name, constants.O_WRONLY);
    return opened.handle;
  }

  async write(handle: number, sizeBytes: number, writeBytes = WRITE_BYTES): Promise<void> {
    for (let offsetBytes = 0; offsetBytes < sizeBytes; offsetBytes += writeBytes) {
      const data = Buffer.alloc(Math.min(writeBytes, sizeBytes - offsetBytes), 1);
      const request = { handle, offsetBytes, data, unique: this.#next(), user: USER };
      await this.#fileSystem.write({ ...request, again: false, leaving: NEVER });
    }
  }

  /** Resolves when no writer gets on. */
  async untilBlocked(): Promise<void> {
    for (let known = -1; known !== this.#unique;) {
      known = this.#unique;
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
    }
  }

  async close(handle: number): Promise<void> {
    await this.#fileSystem.flush(USER, handle);
    this.#fileSystem.release(handle);
  }

  #next(): string {
    this.#unique += 1;
    return `1.${this.#unique.toString(16)}`;
  }
}

// prettier-ignore
const IDLE: [containerMib: number, files: number, sizeMib: number][] = [
  [128,  8,  1],
  [128,  8,  5.5],
  [256,  7,  3],
  [256,  20, 5.5],
  [512,  15, 3],
  [1024, 32, 3],
];
for (const [containerMib, files, sizeMib] of IDLE) {
  test(`${containerMib} MiB: ${files} idle files of ${sizeMib} MiB block nobody`, async () => {
    const mount = new Mount(containerMib * MIB);
    const idle: number[] = [];
    for (let n = 0; n < files; n++) {
      const handle = await mount.create(`idle-${n}`);
      await mount.write(handle, sizeMib * MIB);
      idle.push(handle);
    }
    const small = await mount.create("small");
    await mount.write(small, 2);
    await mount.close(small);
    const large = await mount.create("large");
    await mount.write(large, 12 * MIB);
    await mount.close(large);
    for (const handle of idle) await mount.close(handle);
    assert.equal(mount.store.keys.length, files + 2);
    assert.equal(mount.store.body("large")?.length, 12 * MIB);
    assert.equal(mount.store.unfinishedUploads, 0);
  });
}

for (const [containerMib, writers] of [
  [128, 100],
  [1023, 400],
  [1024, 500],
] as const) {
  test(`${containerMib} MiB: ${writers} writers wait for a slow S3, none fails`, async () => {
    const mount = new Mount(containerMib * MIB);
    const handles = await Promise.all(
      Array.from({ length: writers }, (_, n) => mount.create(`file-${n}`)),
    );
    mount.store.hold();
    const all = handles.map(async (handle) => {
      await mount.write(handle, MIB, mount.maxWriteBytes);
      await mount.close(handle);
    });
    await mount.untilBlocked();
    mount.store.letGo();
    await Promise.all(all);
    assert.equal(mount.store.keys.length, writers);
  });
}

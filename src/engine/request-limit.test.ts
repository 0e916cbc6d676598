import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryStore } from "../s3/memory-store.ts";
import type { ListQuery } from "../s3/object-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const O_WRONLY_TRUNC = 0o1001;
const CONFIG = { ...TEST_CONFIG, metadataTtlMs: 60_000, requestLimitMs: 30 };

/** Once it is away, no request is answered before its time limit. */
class AwayStore extends MemoryStore {
  isAway = false;

  override async head(key: string, signal?: AbortSignal) {
    await this.#answer(signal);
    return super.head(key);
  }
  override async list(query: ListQuery, signal?: AbortSignal) {
    await this.#answer(signal);
    return super.list(query);
  }
  override async delete(key: string, signal?: AbortSignal) {
    await this.#answer(signal);
    return super.delete(key);
  }
  override async createUpload(key: string, _nonce?: string, signal?: AbortSignal) {
    await this.#answer(signal);
    return super.createUpload(key);
  }

  #answer(signal: AbortSignal | undefined): Promise<void> {
    if (!this.isAway) return Promise.resolve();
    const limit = signal ?? assert.fail("without a limit");
    return new Promise((_, reject) => {
      limit.addEventListener("abort", () => reject(limit.reason as Error));
    });
  }
}

const isExpired = (error: unknown) =>
  error instanceof DOMException && error.name === "TimeoutError";

test("requests that nobody answers end at the request limit, whatever they are for", async () => {
  const store = new AwayStore();
  await store.put("file", Buffer.alloc(0));
  const engine = new Engine(store, CONFIG, new TestMemory().begin());
  const inode = await engine.lookup(ROOT_NODEID, "file");
  assert(inode !== undefined);
  inode.lookups += 1;
  const { handle } = await engine.create(ROOT_NODEID, "new", O_WRONLY_TRUNC, 1);
  const directory = engine.openDirectory(ROOT_NODEID);
  store.isAway = true;
  const alive = setInterval(() => undefined, 1000); // timers of signals do not keep a process
  await assert.rejects(async () => engine.lookup(ROOT_NODEID, "other"), isExpired, "lookup");
  await assert.rejects(engine.open(inode.nodeid, 0, 1), isExpired, "open");
  await assert.rejects(engine.listDirectory(directory, 0, true), isExpired, "listing");
  await assert.rejects(engine.unlink(ROOT_NODEID, "file", "0.1"), isExpired, "unlink");
  await assert.rejects(async () => {
    await engine.write({ handle, offsetBytes: 0, data: Buffer.alloc(100) });
    await engine.sync(handle);
  }, isExpired);
  clearInterval(alive);
});

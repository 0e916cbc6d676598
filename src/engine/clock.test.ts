import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const HOUR_MS = 3_600_000;
const TTL_MS = 20;

async function knownFile(metadataTtlMs: number) {
  const store = new MemoryStore();
  await store.put("file", Buffer.from("old"));
  const engine = new Engine(store, { ...TEST_CONFIG, metadataTtlMs }, new TestMemory().begin());
  const known = await engine.lookup(ROOT_NODEID, "file");
  assert(known !== undefined);
  known.lookups += 1;
  await store.put("file", Buffer.from("new"));
  return { engine, known };
}

test("metadata stays valid when the wall clock is set forward", async (t) => {
  const { engine, known } = await knownFile(HOUR_MS);
  const now = Date.now();
  t.mock.method(Date, "now", () => now + 2 * HOUR_MS);
  assert.equal(await engine.lookup(ROOT_NODEID, "file"), known);
});

test("metadata expires when the wall clock is set back", async (t) => {
  const { engine, known } = await knownFile(TTL_MS);
  const now = Date.now();
  t.mock.method(Date, "now", () => now - HOUR_MS);
  await delay(TTL_MS + 1); // expiry itself is the subject: there is no event to wait for
  assert.notEqual(await engine.lookup(ROOT_NODEID, "file"), known);
});

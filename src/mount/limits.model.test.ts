import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { ROOT_NODEID } from "../engine/inode-table.ts";
import { ErrnoError } from "./test-kernel.ts";
import { TestWorld } from "./test-world.ts";
import type { WorldPlan } from "./test-world.ts";

const FULL = Number(process.env["FULL"] ?? 0);
const LIMIT_MS = 3_000;
const PIECE_BYTES = 11;
const AREA_BYTES = 1 << 18;
/** Room for two to four parts, with more writers than that: parts are sent early. */
const TINY_SPOOLS = [2, 3, 4].map((parts) => parts * 4096);
/** A score of such names is more than the journal can hold. */
const TINY_AREA_BYTES = 1 << 14;
const LONG_NAME = "-long".repeat(40);

const seed = Number(process.env["SEED"] ?? Date.now() % 0x7fff_ffff);
const limits = {
  seed,
  numRuns: 1_000 * Math.max(1, FULL),
  ...(FULL > 0 ? {} : { interruptAfterTimeLimit: LIMIT_MS }),
};
const lives = fc.array(fc.nat({ max: 200 }), { maxLength: 6 });
/** Each program writes these sizes into a file of its own, one content after the other. */
const anySizes = fc.array(fc.constantFrom(1, 15, 16, 17, 50, 100), { maxLength: 4 });
const anyFiles = fc.array(anySizes, { minLength: 2, maxLength: 8 });
const manyFiles = fc.array(anySizes, { minLength: 2, maxLength: 40 });

/** True: the call succeeds. */
async function succeeds(call: Promise<unknown>): Promise<boolean> {
  try {
    await call;
    return true;
  } catch (error) {
    if (error instanceof ErrnoError) return false;
    throw error;
  }
}

/**
 * The content of the file afterwards: `written` is the new one, `kept` the one before. A failed
 * close leaves open which of the two it is if an engine died: S3 may have done it by then.
 */
type Replaced = "written" | "kept" | "either";

async function replace(world: TestWorld, name: string, content: string): Promise<Replaced> {
  const { program } = world;
  const opening = program.openToWrite(ROOT_NODEID, name);
  if (!(await succeeds(opening))) return "kept";
  const { nodeid, handle } = await opening;
  let isWhole = true;
  for (let at = 0; at < content.length; at += PIECE_BYTES) {
    const piece = content.slice(at, at + PIECE_BYTES);
    const isTaken = await succeeds(program.writeAt(nodeid, handle, at, piece));
    assert(isWhole || !isTaken, `${name}: a write after a failed one is taken`);
    isWhole = isTaken;
  }
  const isClosed = await succeeds(program.flush(nodeid, handle));
  assert(isWhole || !isClosed, `${name}: closed without an error after a write had failed`);
  await program.release(nodeid, handle);
  if (isClosed) return "written";
  return isWhole && world.deaths > 0 ? "either" : "kept";
}

async function usesFile(world: TestWorld, name: string, sizes: readonly number[]) {
  let content: string | undefined;
  let failures = 0;
  for (const [index, size] of sizes.entries()) {
    const next = `${name}${index}:`.repeat(size).slice(0, size);
    const replaced = await replace(world, name, next);
    const found = world.bucket.body(name)?.toString();
    if (replaced === "written" || (replaced === "either" && found === next)) content = next;
    if (replaced !== "written") failures += 1;
    assert.equal(found, content, `${name} after content ${index}, ${replaced}`);
  }
  return failures;
}

/** How many contents could not be written. */
async function staysWhole(
  files: readonly (readonly number[])[],
  plan: WorldPlan,
  nameEnd = "",
): Promise<number> {
  const world = new TestWorld(plan);
  const all = files.map((sizes, index) => usesFile(world, `${index}${nameEnd}`, sizes));
  const failures = await world.settles(Promise.all(all));
  await world.end();
  assert.equal(world.bucket.unfinishedUploads, 0, "unfinished uploads");
  assert.equal(world.spoolBytes, 0, "bytes in the spool");
  return failures.reduce((sum, count) => sum + count, 0);
}

test("a full spool is waited for: no writer sees an error, whenever the engine dies", async (t) => {
  t.diagnostic(`SEED=${seed}`);
  const plan = fc.record({
    lives,
    resends: fc.boolean(),
    areaBytes: fc.constant(AREA_BYTES),
    spoolBytes: fc.constantFrom(...TINY_SPOOLS),
  });
  const property = fc.asyncProperty(anyFiles, plan, async (files, tiny) => {
    assert.equal(await staysWhole(files, tiny), 0, "contents that could not be written");
  });
  await fc.assert(property, limits);
});

test("with a journal at its limit a file is replaced as a whole or not at all", async (t) => {
  t.diagnostic(`SEED=${seed}`);
  const plan = fc.record({ lives, resends: fc.boolean(), areaBytes: fc.constant(TINY_AREA_BYTES) });
  const property = fc.asyncProperty(manyFiles, plan, async (files, tiny) => {
    await staysWhole(files, tiny, LONG_NAME);
  });
  await fc.assert(property, limits);
});

test("with an S3 that fails a file is replaced as a whole or not at all", async (t) => {
  t.diagnostic(`SEED=${seed}`);
  const plan = fc.record({
    lives,
    resends: fc.boolean(),
    areaBytes: fc.constant(AREA_BYTES),
    failsEvery: fc.integer({ min: 2, max: 9 }),
  });
  const property = fc.asyncProperty(anyFiles, plan, async (files, failing) => {
    await staysWhole(files, failing);
  });
  await fc.assert(property, limits);
});

import assert from "node:assert/strict";
import { constants } from "node:os";
import { test } from "node:test";
import { getSystemErrorName } from "node:util";
import * as fc from "fast-check";
import {
  anyOperation,
  contentOf,
  isRight,
  ReferenceModel,
  strayOf,
} from "../../test/engine/reference-model.ts";
import type { Operation } from "../../test/engine/reference-model.ts";
import { ROOT_NODEID } from "../engine/inode-table.ts";
import { ErrnoError } from "./test-kernel.ts";
import { TestWorld } from "./test-world.ts";
import type { WorldPlan } from "./test-world.ts";

/** FULL=1: 2,000 sequences however long they take; FULL=20: twenty times as many. */
const FULL = Number(process.env["FULL"] ?? 0);
const LIMIT_MS = 3_000;
/** Smaller files are synced while they are written; of larger ones the rest would be refused. */
const SYNCED_BYTES = 17;
/** The small one has room for two parts: programs that write at the same time send early ones. */
const SPOOLS = [1 << 13, 1 << 17];
const { errno } = constants;

/** Each number is how many instants an engine lives; the last one lives to the end. */
const anyPlan: fc.Arbitrary<WorldPlan> = fc.record({
  lives: fc.array(fc.oneof(fc.nat({ max: 12 }), fc.nat({ max: 100 })), { maxLength: 20 }),
  resends: fc.boolean(),
  areaBytes: fc.constantFrom(1 << 13, 1 << 18),
  spoolBytes: fc.constantFrom(...SPOOLS),
});

/** So few that most operations meet what an earlier one has left. */
const fewPaths = fc.constantFrom(["a"], ["a"], ["b"], ["a", "b"], ["a", "b", "c"]);

const OUTCOME_OF_ERRNO: Readonly<Record<number, string>> = {
  [errno.ENOENT]: "absent",
  [errno.EEXIST]: "conflict",
  [errno.ESTALE]: "ESTALE", // Node has no name for it
};

async function run(
  { bucket, program }: TestWorld,
  one: Operation,
  content: string,
  isLocalDir: boolean,
): Promise<string> {
  const { do: verb, path, sizeBytes } = one;
  const key = path.join("/");
  const name = path.at(-1) ?? "";
  try {
    if (verb === "put") {
      if (!isLocalDir) await bucket.put(key, Buffer.from(content));
      return "ok";
    }
    if (verb === "delete") {
      await bucket.delete(key);
      return "ok";
    }
    const parent = await program.walk(path.slice(0, -1));
    if (verb === "list") return await listLong(program, await program.lookup(parent, name));
    if (verb === "read") return await program.read(await program.lookup(parent, name));
    if (verb === "reread") {
      const replace = () => bucket.put(key, Buffer.from(content));
      return await program.reread(await program.lookup(parent, name), replace);
    }
    if (verb === "map") {
      await program.map(await program.lookup(parent, name));
      return "mapped";
    }
    if (verb === "astray") {
      const { first, at } = strayOf(one, content);
      const outcomes = await program.writeAstray(parent, name, first, at);
      return outcomes.map(outcomeOf).join(" ");
    }
    if (verb === "share") await program.share(parent, name, content.slice(0, sizeBytes));
    else if (verb !== "write") await program[verb](parent, name);
    else await program.write(parent, name, content.slice(0, sizeBytes), sizeBytes < SYNCED_BYTES);
    return "ok";
  } catch (error) {
    if (!(error instanceof ErrnoError)) throw error;
    return outcomeOf(error.errno);
  }
}

function outcomeOf(number: number): string {
  if (number === 0) return "ok";
  return OUTCOME_OF_ERRNO[number] ?? getSystemErrorName(-number);
}

/** As `ls -l` does: each name that is listed is looked up. */
async function listLong(program: TestWorld["program"], nodeid: number): Promise<string> {
  const names = await program.list(nodeid);
  for (const name of names) await program.lookup(nodeid, name);
  return names.join(",");
}

async function agrees(
  operations: readonly (readonly [Operation, Operation["path"]])[],
  plan: WorldPlan,
): Promise<void> {
  const model = new ReferenceModel();
  const world = new TestWorld(plan);
  for (const [index, [operation, path]] of operations.entries()) {
    const one = { ...operation, path };
    const content = contentOf(one, index);
    const isLocalDir = model.localDirs.has(one.path.join("/"));
    const want = model.run(one, content);
    const got = await world.settles(run(world, one, content, isLocalDir));
    const what = `step ${index}: ${one.do} ${one.path.join("/")} gives ${got}, not ${want}`;
    assert(isRight(one, got, want), what);
    const bodies = world.bucket.keys.map((key) => [key, String(world.bucket.body(key))]);
    assert.deepEqual(Object.fromEntries(bodies), Object.fromEntries(model.objects));
    world.checkReferences();
    if (index % 3 === 0) world.forgetAll();
  }
  await world.end();
  assert.equal(world.bucket.unfinishedUploads, 0, "unfinished uploads");
  assert.equal(world.spoolBytes, 0, "bytes in the spool");
  const needless = world.inodes - 1 - model.localDirs.size - model.emptied.size;
  // An engine that dies while it serves an answered request again leaves its reference behind.
  assert(needless >= 0 && needless <= Math.max(0, world.deaths - 1), `${needless} inodes`);
}

/** A program that has its file for itself: what it finds there is what it left there. */
async function usesFile(world: TestWorld, name: string, sizes: readonly number[]): Promise<void> {
  const { program } = world;
  let content: string | undefined;
  for (const [index, size] of sizes.entries()) {
    if (size < 0 && content !== undefined) await program.unlink(ROOT_NODEID, name);
    content = size < 0 ? undefined : `${name}${index}:`.repeat(size).slice(0, size);
    if (content === undefined) continue;
    await program.write(ROOT_NODEID, name, content, size < SYNCED_BYTES);
    assert.equal(await program.read(await program.lookup(ROOT_NODEID, name)), content);
  }
  assert.equal(world.bucket.body(name)?.toString(), content);
}

async function keepsApart(files: readonly (readonly number[])[], plan: WorldPlan): Promise<void> {
  const world = new TestWorld(plan);
  const all = files.map((sizes, index) => usesFile(world, String(index), sizes));
  await world.settles(Promise.all(all));
  world.checkReferences();
  await world.end();
  assert.equal(world.bucket.unfinishedUploads, 0, "unfinished uploads");
  assert.equal(world.spoolBytes, 0, "bytes in the spool");
}

/** A WRITE that was taken comes again behind the end of its upload: that is not made twice. */
const TAKEN_TWICE: Parameters<typeof agrees> = [
  [
    [{ do: "write", path: ["a"], sizeBytes: 15 }, ["a"]],
    [{ do: "delete", path: ["a"], sizeBytes: 0 }, ["a"]],
    [{ do: "write", path: ["a"], sizeBytes: 0 }, ["a"]],
    [{ do: "rmdir", path: ["b"], sizeBytes: 16 }, ["b"]],
    [{ do: "write", path: ["a"], sizeBytes: 17 }, ["a"]],
  ],
  { lives: [38, 0, 11], resends: false, areaBytes: 8192 },
];

/** What was only here is found in S3, and nobody refers to it any more: it must not stay. */
const FILLED_BY_OTHERS: Parameters<typeof agrees>[0] = [
  [{ do: "list", path: ["b"], sizeBytes: 0 }, ["b"]],
  [{ do: "mkdir", path: ["a"], sizeBytes: 0 }, ["a"]],
  [{ do: "put", path: ["a"], sizeBytes: 0 }, ["a", "b"]],
  [{ do: "list", path: ["b"], sizeBytes: 0 }, ["b"]],
  [{ do: "rmdir", path: ["a"], sizeBytes: 0 }, ["a"]],
];

const seed = Number(process.env["SEED"] ?? Date.now() % 0x7fff_ffff);
const limits = {
  seed,
  numRuns: 2_000 * Math.max(1, FULL),
  ...(FULL > 0 ? {} : { interruptAfterTimeLimit: LIMIT_MS }),
};

test("an engine that dies at any instant, again and again, agrees with the model", async (t) => {
  t.diagnostic(`SEED=${seed}`);
  const operations = fc.array(fc.tuple(anyOperation, fewPaths), { minLength: 1, maxLength: 25 });
  const examples: Parameters<typeof agrees>[] = [TAKEN_TWICE];
  await fc.assert(fc.asyncProperty(operations, anyPlan, agrees), { ...limits, examples });
});

test("an engine that dies at any instant leaves nothing that only it remembers", async () => {
  for (let life = 0; life < 100; life++) {
    await agrees(FILLED_BY_OTHERS, { lives: [life], resends: false, areaBytes: 8192 });
  }
});

test("programs at the same time each find what they wrote, whenever the engine dies", async (t) => {
  t.diagnostic(`SEED=${seed}`);
  const sizes = fc.array(fc.constantFrom(-1, 0, 1, 15, 16, 33, 100), { maxLength: 5 });
  const files = fc.array(sizes, { minLength: 2, maxLength: 4 });
  await fc.assert(fc.asyncProperty(files, anyPlan, keepsApart), limits);
});

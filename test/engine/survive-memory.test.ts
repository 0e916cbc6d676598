import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { partNumbers, partOf } from "../../tools/bench/engine/content.ts";
import { EngineKiller } from "../../tools/bench/survive/engine-killer.ts";
import { underKills } from "../../tools/bench/survive/under-kills.ts";
import { mountShipped } from "./engine-process.ts";
import { limitMemory } from "./memory-limit.ts";
import { MODES } from "./resume-modes.ts";
import { TestBucket } from "./test-bucket.ts";

const MIB = 1 << 20;
const FULL = process.env["FULL"] === "1";
const SIZE_BYTES = (FULL ? 512 : 96) * MIB;
const KILLS = FULL ? 20 : 2;
const LIMIT_MIB = 96;

describe("an engine in the smallest container", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("large", Buffer.concat(partNumbers(SIZE_BYTES).map(partOf)));
  });
  after(() => bucket[Symbol.asyncDispose]());

  for (const [mode, options] of Object.entries(MODES)) {
    test(`${mode}: readers and writers see no error over kills`, async (t) => {
      await using limit = await limitMemory(LIMIT_MIB);
      const env = { NODE_OPTIONS: limit.nodeOption };
      await using mount = await mountShipped(bucket, options, env);
      const killer = new EngineKiller(mount.engine.child);
      const names = ["read", "read", "write", "write"] as const;
      const work = names.map((verb, n) => {
        const path = join(mount.dir, verb === "read" ? "large" : `${mode}-${n}`);
        return underKills({ verb, path, sizeBytes: SIZE_BYTES, kills: KILLS, killer });
      });
      await Promise.all(work);
      t.diagnostic(`a peak of ${Math.round(limit.peakMib())} MiB of ${LIMIT_MIB}`);
      assert.equal(killer.kills, names.length * KILLS);
      assert(limit.peakMib() > LIMIT_MIB * 0.4, "the engine is not under the limit");
      assert.equal(limit.oomKills(), 0, "the limit was exceeded");
      assert.equal(await bucket.unfinishedUploads(), 0);
    });
  }
});

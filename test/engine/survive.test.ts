import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { PART_BYTES, partNumbers, partOf } from "../../tools/bench/engine/content.ts";
import { EngineKiller } from "../../tools/bench/survive/engine-killer.ts";
import { FinishedParts } from "../../tools/bench/survive/finished-parts.ts";
import { RequestLog } from "../../tools/bench/survive/request-log.ts";
import { underKills } from "../../tools/bench/survive/under-kills.ts";
import { mountShipped } from "./engine-process.ts";
import { MODES } from "./resume-modes.ts";
import { TestBucket } from "./test-bucket.ts";

const MIB = 1 << 20;
const FULL = process.env["FULL"] === "1";
const READ = FULL ? { sizeBytes: 1024 * MIB, kills: 100 } : { sizeBytes: 256 * MIB, kills: 10 };
const WRITE = FULL ? { sizeBytes: 1024 * MIB, kills: 60 } : { sizeBytes: 128 * MIB, kills: 6 };
/** A journal that is read quickly: this has to be done before the next engine begins. */
const SMALL_JOURNAL = ["--inode-limit", "1000"];

describe("large files while the engine is killed", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("large", Buffer.concat(partNumbers(READ.sizeBytes).map(partOf)));
  });
  after(() => bucket[Symbol.asyncDispose]());

  for (const [mode, options] of Object.entries(MODES)) {
    test(`${mode}: a reader gets every byte, ${READ.kills} kills`, async (t) => {
      await using mount = await mountShipped(bucket, options);
      const killer = new EngineKiller(mount.engine.child);
      const path = join(mount.dir, "large");
      const pauses = await underKills({ verb: "read", path, ...READ, killer });
      assert.equal(killer.kills, READ.kills);
      t.diagnostic(`longest read(2) by kill, ms: ${pauses.map(Math.round).join(" ")}`);
    });

    test(`${mode}: a writer's object is right, ${WRITE.kills} kills`, async () => {
      await using log = await RequestLog.start(bucket.access.endpoint);
      await using mount = await mountShipped(bucket, [...options, ...SMALL_JOURNAL], {
        AWS_ENDPOINT_URL: log.endpoint,
      });
      const killer = new EngineKiller(mount.engine.child);
      const finished = new FinishedParts(log);
      const onKilled = () => finished.look(killer.supervisorPid);
      const key = `written ${mode}`;
      const path = join(mount.dir, key);
      await underKills({ verb: "write", path, ...WRITE, killer, onKilled });
      assert.equal(killer.kills, WRITE.kills);
      const stored = await bucket.get(key);
      assert.equal(stored.length, WRITE.sizeBytes);
      for (const n of partNumbers(WRITE.sizeBytes)) {
        const found = stored.subarray(n * PART_BYTES, (n + 1) * PART_BYTES);
        assert(found.equals(partOf(n)), `part ${n}`);
      }
      assert(finished.known > 0, "no kill came after a part was finished");
      assert.equal(finished.sentAgain, 0);
      assert.equal(await bucket.unfinishedUploads(), 0);
    });
  }
});

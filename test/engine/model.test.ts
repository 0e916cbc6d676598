import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import * as fc from "fast-check";
import { mountBucket } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { ModelRun } from "./model-run.ts";
import { memoryMib } from "./process-figures.ts";
import { anyOperation, contentOf } from "./reference-model.ts";
import { TestBucket } from "./test-bucket.ts";

const OPERATIONS = 150;
const BATCHES = 2;
const CHURN = 1_500;
const MOUNT_ARGS = ["--allow-delete", "--allow-overwrite", "--metadata-ttl", "0"];
async function openDescriptors(mount: MountedBucket): Promise<number> {
  return (await fs.readdir(`/proc/${mount.engine.servingPid}/fd`)).length;
}

function residentMib(mount: MountedBucket): number {
  return memoryMib(mount.engine.servingPid ?? 0, "VmRSS");
}

describe("a real mount on a real S3 server", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
  });
  after(() => bucket[Symbol.asyncDispose]());

  const mountAt = (prefix: string) => mountBucket(bucket, [...MOUNT_ARGS, "--prefix", prefix]);

  for (let batch = 0; batch < BATCHES; batch++) {
    const seed = Number(process.env["MODEL_SEED"] ?? Date.now() % 1_000_000) + batch;
    test(`it agrees with the model over ${OPERATIONS} operations, MODEL_SEED=${seed}`, async () => {
      const prefix = `batch-${batch}/`;
      await using mount = await mountAt(prefix);
      const run = new ModelRun({ bucket, dir: mount.dir, prefix });
      const operations = fc.sample(anyOperation, { seed, numRuns: OPERATIONS });
      for (const [index, one] of operations.entries()) {
        const content = contentOf(one, index);
        try {
          await run.step(one, content);
        } catch (error) {
          const what = `seed ${seed}, step ${index}: ${one.do} ${one.path.join("/")}`;
          throw new Error(`${what}: ${String(error)}`, { cause: error });
        }
      }
      assert.equal(await bucket.unfinishedUploads(), 0);
    });
  }

  test("thousands of operations leave no descriptor, socket or memory behind", async () => {
    await using mount = await mountAt("churn/");
    const churn = async (rounds: number) => {
      for (let n = 0; n < rounds; n += 5) {
        const path = join(mount.dir, `file-${n % 7}`);
        await fs.writeFile(path, "x".repeat(n + 1));
        assert.equal((await fs.readFile(path)).length, n + 1);
        await fs.stat(path);
        await fs.readdir(mount.dir);
        await fs.unlink(path);
      }
    };
    await churn(CHURN / 4);
    await delay(100);
    const [descriptors, mib] = [await openDescriptors(mount), residentMib(mount)];
    await churn(CHURN);
    await delay(100);
    assert((await openDescriptors(mount)) <= descriptors + 4);
    assert(residentMib(mount) <= mib + 60, "memory grows");
    assert(!(await bucket.keys()).some((key) => key.startsWith("churn/")), "files are left");
  });
});

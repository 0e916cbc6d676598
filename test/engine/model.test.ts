import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import * as fc from "fast-check";
import { mountBucket } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { anyOperation, ReferenceModel } from "./reference-model.ts";
import type { Operation, Outcome } from "./reference-model.ts";
import { TestBucket } from "./test-bucket.ts";

const OPERATIONS = 150;
const BATCHES = 2;
const CHURN = 1_500;
const MOUNT_ARGS = ["--allow-delete", "--allow-overwrite", "--metadata-ttl", "0"];
const ERRNO: Readonly<Record<string, string>> = { absent: "ENOENT", conflict: "EEXIST" };

const byName = (left: string, right: string) => (left < right ? -1 : 1);

async function act({ do: verb, sizeBytes }: Operation, path: string, content: string) {
  if (verb === "write") await fs.writeFile(path, content.slice(0, sizeBytes));
  else if (verb === "read") return fs.readFile(path, "utf8");
  else if (verb === "list") return (await fs.readdir(path)).toSorted(byName).join(",");
  else if (verb === "mkdir") await fs.mkdir(path);
  else if (verb === "rmdir") await fs.rmdir(path);
  else if (verb === "unlink") await fs.unlink(path);
  return "ok";
}

async function outcomeOf(operation: Operation, path: string, content: string): Promise<Outcome> {
  try {
    return await act(operation, path, content);
  } catch (error) {
    if (error instanceof Error && "code" in error) return String(error.code);
    throw error;
  }
}

/** What the server accepts of another client; this one can't have both `a` and `a/b`. */
async function elsewhere(
  bucket: TestBucket,
  { do: verb }: Operation,
  key: string,
  content: string,
) {
  try {
    if (verb === "put") await bucket.put(key, content);
    else await bucket.delete(key);
    return true;
  } catch {
    return false;
  }
}

async function openDescriptors(mount: MountedBucket): Promise<number> {
  return (await fs.readdir(`/proc/${mount.engine.servingPid}/fd`)).length;
}

async function residentMib(mount: MountedBucket): Promise<number> {
  const status = await fs.readFile(`/proc/${mount.engine.servingPid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

describe("a real mount on a real S3 server", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
  });
  after(() => bucket[Symbol.asyncDispose]());

  const mountAt = (prefix: string) => mountBucket(bucket, [...MOUNT_ARGS, "--prefix", prefix]);

  async function keysUnder(prefix: string): Promise<string[]> {
    const keys = (await bucket.keys()).filter((key) => key.startsWith(prefix));
    return keys.map((key) => key.slice(prefix.length)).toSorted(byName);
  }

  async function arrival(prefix: string, key: string): Promise<void> {
    for (let tries = 0; !(await keysUnder(prefix)).includes(key); tries++) {
      assert(tries < 100, "an empty file does not come");
      await delay(10);
    }
  }

  interface Place {
    readonly model: ReferenceModel;
    readonly dir: string;
    readonly prefix: string;
  }

  async function step({ model, dir, prefix }: Place, one: Operation, content: string) {
    const key = one.path.join("/");
    if (one.do === "put" || one.do === "delete") {
      // A local directory of that name, or nothing to delete: not what is asked here.
      if (one.do === "put" ? model.localDirs.has(key) : !model.objects.has(key)) return;
      if (await elsewhere(bucket, one, prefix + key, content)) model.run(one, content);
      return;
    }
    const want = model.run(one, content);
    const got = await outcomeOf(one, join(dir, key), content);
    assert.equal(got, ERRNO[want] ?? want);
    const wanted = [...model.objects.keys()].toSorted(byName);
    // An empty file is uploaded after close(2) has returned: a shell may not have written yet.
    if (one.do === "write" && one.sizeBytes === 0 && got === "ok") await arrival(prefix, key);
    assert.deepEqual(await keysUnder(prefix), wanted);
  }

  for (let batch = 0; batch < BATCHES; batch++) {
    const seed = Number(process.env["MODEL_SEED"] ?? Date.now() % 1_000_000) + batch;
    test(`it agrees with the model over ${OPERATIONS} operations, MODEL_SEED=${seed}`, async () => {
      const prefix = `batch-${batch}/`;
      await using mount = await mountAt(prefix);
      const place = { model: new ReferenceModel(), dir: mount.dir, prefix };
      const operations = fc.sample(anyOperation, { seed, numRuns: OPERATIONS });
      for (const [index, one] of operations.entries()) {
        const content = `${index}:`.padEnd(100, String(index % 10));
        try {
          await step(place, one, content);
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
    const [descriptors, mib] = [await openDescriptors(mount), await residentMib(mount)];
    await churn(CHURN);
    await delay(100);
    assert((await openDescriptors(mount)) <= descriptors + 4);
    assert((await residentMib(mount)) <= mib + 60, "memory grows");
    assert.deepEqual(await keysUnder("churn/"), []);
  });
});

import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import * as fc from "fast-check";
import { EngineKiller } from "../../tools/bench/survive/engine-killer.ts";
import { mountShipped } from "./engine-process.ts";
import { ModelRun } from "./model-run.ts";
import { anyOperation, contentOf } from "./reference-model.ts";
import { MODES } from "./resume-modes.ts";
import { TestBucket } from "./test-bucket.ts";

/** In each mode: SEQUENCES=1000 is the full form. */
const SEQUENCES = Number(process.env["SEQUENCES"] ?? 6);
const OPERATIONS = 12;
const INSIDE_MAX_MS = 15;
const ARGS = ["--allow-delete", "--allow-overwrite", "--metadata-ttl", "0"];
/** Keeps a sequence's directory alive: S3 has no empty ones. */
const KEEP = "keep";

const anyStep = fc.record({
  one: anyOperation,
  kill: fc.constantFrom("before", "inside", "inside", "inside", "after", "none", "none", "none"),
  delayMs: fc.double({ min: 0, max: INSIDE_MAX_MS, noNaN: true }),
});

for (const [mode, options] of Object.entries(MODES)) {
  describe(`the model while the engine is killed, ${mode}`, () => {
    let bucket: TestBucket;
    before(async () => {
      bucket = await TestBucket.start();
    });
    after(() => bucket[Symbol.asyncDispose]());

    const seed = Number(process.env["MODEL_SEED"] ?? Date.now() % 1_000_000);
    test(`${SEQUENCES} sequences agree with it, MODEL_SEED=${seed}`, async (t) => {
      await using mount = await mountShipped(bucket, [...ARGS, ...options]);
      const killer = new EngineKiller(mount.engine.child);
      for (let n = 0; n < SEQUENCES; n++) await sequence(mount.dir, killer, seed + n);
      t.diagnostic(`${killer.kills} kills`);
    });

    async function sequence(top: string, killer: EngineKiller, ownSeed: number): Promise<void> {
      const prefix = `${ownSeed}/`;
      await bucket.put(prefix + KEEP, "");
      const run = new ModelRun({ bucket, dir: join(top, prefix), prefix });
      run.model.objects.set(KEEP, "");
      const steps = fc.sample(anyStep, { seed: ownSeed, numRuns: OPERATIONS });
      for (const [index, { one, kill, delayMs }] of steps.entries()) {
        const content = contentOf(one, index);
        try {
          if (kill === "before") await killer.kill();
          await run.step(one, content, async (operation) => {
            if (kill !== "inside") return operation();
            const killed = delay(delayMs).then(() => killer.kill());
            const [outcome] = await Promise.all([operation(), killed]);
            return outcome;
          });
          if (kill === "after") await killer.kill();
        } catch (error) {
          const what = `seed ${ownSeed}, step ${index}: ${one.do} ${one.path.join("/")}`;
          throw new Error(`${what}, kill ${kill} ${delayMs}: ${String(error)}`, { cause: error });
        }
      }
      for (const key of await run.keys()) await bucket.delete(prefix + key);
    }
  });
}

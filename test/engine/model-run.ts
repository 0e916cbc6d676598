import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { ReferenceModel } from "./reference-model.ts";
import type { Operation, Outcome } from "./reference-model.ts";
import type { TestBucket } from "./test-bucket.ts";

const ERRNO: Readonly<Record<string, string>> = { absent: "ENOENT", conflict: "EEXIST" };
/** An empty file is uploaded after close(2) has returned: a shell may not have written yet. */
const ARRIVES_WITHIN_MS = 10_000;

const byName = (left: string, right: string) => (left < right ? -1 : 1);

export interface ModelPlace {
  readonly bucket: TestBucket;
  /** A directory of a mount, and what its keys begin with. */
  readonly dir: string;
  readonly prefix: string;
}

/** Operations on a mounted directory, each compared with what the model says. */
export class ModelRun {
  readonly model = new ReferenceModel();
  readonly #place: ModelPlace;

  constructor(place: ModelPlace) {
    this.#place = place;
  }

  /** `around` may do something while the operation runs. */
  async step(one: Operation, content: string, around = runAlone): Promise<void> {
    const { model } = this;
    const key = one.path.join("/");
    if (one.do === "put" || one.do === "delete") {
      // A local directory of that name, or nothing to delete: not what is asked here.
      if (one.do === "put" ? model.localDirs.has(key) : !model.objects.has(key)) return;
      if (await this.#elsewhere(one, key, content)) model.run(one, content);
      return;
    }
    const want = model.run(one, content);
    const got = await around(() => outcomeOf(one, join(this.#place.dir, key), content));
    assert.equal(got, ERRNO[want] ?? want);
    if (one.do === "write" && one.sizeBytes === 0 && got === "ok") await this.#arrival(key);
    assert.deepEqual(await this.keys(), [...model.objects.keys()].toSorted(byName));
  }

  async keys(): Promise<string[]> {
    const { bucket, prefix } = this.#place;
    const keys = (await bucket.keys()).filter((key) => key.startsWith(prefix));
    return keys.map((key) => key.slice(prefix.length)).toSorted(byName);
  }

  async #arrival(key: string): Promise<void> {
    const endMs = performance.now() + ARRIVES_WITHIN_MS;
    while (!(await this.keys()).includes(key)) {
      assert(performance.now() < endMs, "an empty file does not come");
      await delay(10);
    }
  }

  /** What the server accepts of another client; this one can't have both `a` and `a/b`. */
  async #elsewhere({ do: verb }: Operation, key: string, content: string): Promise<boolean> {
    const { bucket, prefix } = this.#place;
    try {
      if (verb === "put") await bucket.put(prefix + key, content);
      else await bucket.delete(prefix + key);
      return true;
    } catch {
      return false;
    }
  }
}

async function runAlone(operation: () => Promise<Outcome>): Promise<Outcome> {
  return operation();
}

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

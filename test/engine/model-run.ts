import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import { constants } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isRight, ReferenceModel, strayOf } from "./reference-model.ts";
import type { Operation, Outcome } from "./reference-model.ts";
import { isMappable } from "./shared-mapping.ts";
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
    const replace = () => this.#place.bucket.put(this.#place.prefix + key, content);
    const path = join(this.#place.dir, key);
    const got = await around(() => outcomeOf(() => act(one, path, content, replace)));
    assert(isRight(one, got, ERRNO[want] ?? want), `${got} instead of ${ERRNO[want] ?? want}`);
    const isEmpty = (one.do === "write" || one.do === "share") && one.sizeBytes === 0;
    if (isEmpty && got === "ok") await this.#arrival(key);
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

async function act(
  one: Operation,
  path: string,
  content: string,
  replace: () => Promise<void>,
): Promise<Outcome> {
  const { do: verb, sizeBytes } = one;
  if (verb === "write") await fs.writeFile(path, content.slice(0, sizeBytes));
  else if (verb === "share") await shareFile(path, content.slice(0, sizeBytes));
  else if (verb === "astray") return writeAstray(path, strayOf(one, content));
  else if (verb === "reread") return reread(path, replace);
  else if (verb === "map") return mapShared(path);
  else if (verb === "read") return fs.readFile(path, "utf8");
  else if (verb === "list") return (await fs.readdir(path)).toSorted(byName).join(",");
  else if (verb === "mkdir") await fs.mkdir(path);
  else if (verb === "rmdir") await fs.rmdir(path);
  else if (verb === "unlink") await fs.unlink(path);
  else if (verb === "removeTree") await removeTree(path);
  return "ok";
}

/** As rm -rf does it: fs.rm() would try some calls again, and hide their errors. */
async function removeTree(path: string): Promise<void> {
  if (!(await fs.lstat(path)).isDirectory()) return fs.unlink(path);
  for (const name of await fs.readdir(path)) await removeTree(join(path, name));
  await fs.rmdir(path);
}

/** Each call of Node's promises is made by any thread of its pool; the child is a process. */
async function shareFile(path: string, content: string): Promise<void> {
  const file = await fs.open(path, "w");
  const half = content.length / 2;
  try {
    await file.write(content.slice(0, half));
    await once(spawn("true", { stdio: ["ignore", "ignore", "ignore", file.fd] }), "exit");
    await file.write(content.slice(half));
  } finally {
    await file.close();
  }
}

async function writeAstray(path: string, { first, at }: ReturnType<typeof strayOf>) {
  const file = await fs.open(path, "w");
  await file.write(first, 0);
  const outcomes = [
    await outcomeOf(async () => void (await file.write(first, at))),
    await outcomeOf(async () => void (await file.write(first, first.length))),
    await outcomeOf(() => file.close()),
  ];
  return outcomes.join(" ");
}

async function reread(path: string, replace: () => Promise<void>): Promise<Outcome> {
  await using file = await fs.open(path);
  const bytes = Buffer.alloc(1000);
  const { bytesRead } = await file.read(bytes, 0, 1, 0);
  await replace();
  const rest = await file.read(bytes, bytesRead, bytes.length - bytesRead, bytesRead);
  return bytes.toString("utf8", 0, bytesRead + rest.bytesRead);
}

async function mapShared(path: string): Promise<Outcome> {
  await using file = await fs.open(path, "r+");
  return isMappable(file.fd) ? "mapped" : "ENODEV";
}

/** `absent` and the like are the model's; Node has no name for ESTALE. */
async function outcomeOf(operation: () => Promise<Outcome | void>): Promise<Outcome> {
  try {
    return (await operation()) ?? "ok";
  } catch (error) {
    if (!(error instanceof Error) || !("code" in error) || !("errno" in error)) throw error;
    return error.errno === -constants.errno.ESTALE ? "ESTALE" : String(error.code);
  }
}

import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import {
  anyOperation,
  contentOf,
  isRight,
  ReferenceModel,
  strayOf,
} from "../../test/engine/reference-model.ts";
import type { Operation, Outcome, Path } from "../../test/engine/reference-model.ts";
import type { Inode } from "./inode.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const O_RDWR = 0o2;
const O_WRONLY_TRUNC = 0o1001;
const PID = 42;
const USER = { pid: PID, owner: "0.1" };
const PART_BYTES = 16; // small, so that a short content is many parts

/** Plays the kernel: walks, counts what it was told, forgets it again. */
class Driver {
  readonly store = new MemoryStore();
  readonly engine = new Engine(
    this.store,
    {
      ...TEST_CONFIG,
      reads: { partBytes: PART_BYTES, longGets: true },
      writePartSizeBytes: PART_BYTES,
    },
    new TestMemory().begin(),
  );
  readonly #held: Inode[] = [];

  async run(operation: Operation, content: string, isLocalDir: boolean): Promise<Outcome> {
    const { do: verb, path } = operation;
    const key = path.join("/");
    if (verb === "put" || verb === "delete") {
      if (verb === "delete") await this.store.delete(key);
      else if (!isLocalDir) await this.store.put(key, Buffer.from(content));
      return "ok";
    }
    try {
      const parent = await this.#walk(path.slice(0, -1));
      return await this.#act(operation, parent, path.at(-1) ?? "", content);
    } catch (error) {
      return codeOf(error);
    }
  }

  forgetAll(): void {
    for (const inode of this.#held.splice(0)) this.engine.table.forget(inode.nodeid, 1);
  }

  async #act(
    operation: Operation,
    parent: number,
    name: string,
    content: string,
  ): Promise<Outcome> {
    const { engine } = this;
    switch (operation.do) {
      case "mkdir":
        this.#hold(await engine.makeDirectory(parent, name));
        return "ok";
      case "rmdir":
        await engine.removeDirectory(parent, name, "0.1");
        return "ok";
      case "unlink":
        await engine.unlink(parent, name, "0.1");
        return "ok";
      case "removeTree":
        return this.#removeTree(parent, name);
      case "list":
        return (await this.#list(await this.#enter(parent, name))).join(",");
      case "read":
        return this.#read(await this.#enter(parent, name));
      case "reread": {
        const key = operation.path.join("/");
        const replace = () => this.store.put(key, Buffer.from(content));
        return this.#read(await this.#enter(parent, name), replace);
      }
      case "map": {
        const { handle, how } = await engine.open(await this.#enter(parent, name), O_RDWR, PID);
        await engine.release(handle);
        return how === "read without cache" ? "ENODEV" : "mapped";
      }
      case "write":
      case "share": // this model has no threads
        return this.#write(parent, name, content.slice(0, operation.sizeBytes));
      case "astray":
        return this.#writeAstray(parent, name, strayOf(operation, content));
      case "put":
      case "delete":
        return "ok"; // done behind the engine's back
      default:
        return operation.do satisfies never;
    }
  }

  async #list(nodeid: number): Promise<string[]> {
    const { engine } = this;
    const handle = engine.openDirectory(nodeid);
    const names: string[] = [];
    for (;;) {
      const stream = await engine.listDirectory(handle, names.length, names.length === 0);
      const item = stream.item(names.length);
      if (item === undefined) break;
      const inode = stream.enter(item, engine.table);
      if (typeof inode !== "string") this.#hold(inode);
      names.push(item.name);
    }
    engine.releaseDirectory(handle);
    return names;
  }

  async #removeTree(parent: number, name: string): Promise<Outcome> {
    const { engine } = this;
    const nodeid = await this.#enter(parent, name);
    if (engine.table.get(nodeid).kind === "directory") {
      for (const child of await this.#list(nodeid)) await this.#removeTree(nodeid, child);
      await engine.removeDirectory(parent, name, "0.1");
    } else await engine.unlink(parent, name, "0.1");
    return "ok";
  }

  /** `between` happens once, after the first piece. */
  async #read(nodeid: number, between?: () => Promise<unknown>): Promise<string> {
    const { handle } = await this.engine.open(nodeid, 0, PID);
    let text = "";
    let waiting = between;
    try {
      for (;;) {
        const lent = await this.engine.read(handle, text.length, 7);
        await waiting?.();
        waiting = undefined;
        if (lent.chunks.length === 0) return text;
        text += Buffer.concat(lent.chunks).toString();
        lent.release();
      }
    } finally {
      await this.engine.release(handle);
    }
  }

  async #openToWrite(parent: number, name: string): Promise<{ readonly handle: number }> {
    const known = await this.engine.lookup(parent, name);
    if (known === undefined) return this.#create(parent, name);
    return this.engine.open(this.#hold(known).nodeid, O_WRONLY_TRUNC, PID);
  }

  async #writeAstray(parent: number, name: string, { first, at }: ReturnType<typeof strayOf>) {
    const { engine } = this;
    const { handle } = await this.#openToWrite(parent, name);
    const bytes = Buffer.from(first);
    assert.equal(await engine.write({ handle, offsetBytes: 0, data: bytes }), bytes.length);
    const outcomes = [
      await outcomeOf(async () => engine.write({ handle, offsetBytes: at, data: bytes })),
      await outcomeOf(async () => engine.write({ handle, offsetBytes: bytes.length, data: bytes })),
      await outcomeOf(() => engine.flush(handle, USER)),
    ];
    await outcomeOf(() => engine.release(handle)); // its failure was told by the close
    return outcomes.join(" ");
  }

  async #write(parent: number, name: string, content: string): Promise<string> {
    const opened = await this.#openToWrite(parent, name);
    for (let at = 0; at < content.length; at += 11) {
      const data = Buffer.from(content.slice(at, at + 11));
      const { handle } = opened;
      const written = await this.engine.write({ handle, offsetBytes: at, data, user: USER });
      assert.equal(written, data.length);
    }
    await this.engine.flush(opened.handle, USER);
    await this.engine.release(opened.handle);
    return "ok";
  }

  async #create(parent: number, name: string) {
    const { inode, handle } = await this.engine.create(parent, name, O_WRONLY_TRUNC, PID);
    this.#hold(inode);
    return { handle };
  }

  async #walk(path: Path): Promise<number> {
    let nodeid = ROOT_NODEID;
    for (const name of path) nodeid = await this.#enter(nodeid, name);
    return nodeid;
  }

  async #enter(parent: number, name: string): Promise<number> {
    const inode = await this.engine.lookup(parent, name);
    if (inode === undefined) throw new Failure("absent", name);
    return this.#hold(inode).nodeid;
  }

  #hold(inode: Inode): Inode {
    inode.lookups += 1;
    this.#held.push(inode);
    return inode;
  }
}

async function outcomeOf(call: () => Promise<unknown>): Promise<Outcome> {
  try {
    await call();
    return "ok";
  } catch (error) {
    return codeOf(error);
  }
}

function codeOf(error: unknown): string {
  if (error instanceof PosixFailure) return error.code;
  if (error instanceof Failure) return error.kind === "stale" ? "ESTALE" : error.kind;
  throw error;
}

async function agrees(operations: readonly Operation[]): Promise<void> {
  const model = new ReferenceModel();
  const driver = new Driver();
  for (const [index, one] of operations.entries()) {
    const content = contentOf(one, index);
    const isLocalDir = model.localDirs.has(one.path.join("/"));
    const want = model.run(one, content);
    const got = await driver.run(one, content, isLocalDir);
    const what = `step ${index}: ${one.do} ${one.path.join("/")} gives ${got}, not ${want}`;
    assert(isRight(one, got, want), what);
    assert.deepEqual(
      driver.store.keys,
      [...model.objects.keys()].toSorted((l, r) => (l < r ? -1 : 1)),
    );
    if (index % 3 === 0) driver.forgetAll();
  }
  driver.forgetAll();
  await new Promise(setImmediate);
  assert.equal(driver.store.unfinishedUploads, 0);
  const needed = 1 + model.localDirs.size + model.emptied.size;
  assert.equal(driver.engine.table.size, needed, "inodes that nobody needs");
}

test("the engine agrees with the model after every operation, and keeps nothing", async () => {
  await fc.assert(fc.asyncProperty(fc.array(anyOperation, { maxLength: 30 }), agrees), {
    numRuns: 300,
  });
});

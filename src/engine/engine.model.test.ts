import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { MemoryStore } from "../s3/memory-store.ts";
import { Engine } from "./engine.ts";
import { anyOperation, ReferenceModel } from "../../test/engine/reference-model.ts";
import type { Operation, Outcome, Path } from "../../test/engine/reference-model.ts";
import type { Inode } from "./inode.ts";
import { ROOT_NODEID } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { TEST_CONFIG } from "./test-config.ts";
import { TestMemory } from "./test-memory.ts";

const O_WRONLY_TRUNC = 0o1001;
const PID = 42;
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
      if (error instanceof PosixFailure) return error.code;
      if (error instanceof Failure) return error.kind;
      throw error;
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
      case "list": {
        const handle = engine.openDirectory(await this.#enter(parent, name));
        const names: string[] = [];
        for (;;) {
          const stream = await engine.listDirectory(handle, names.length, names.length === 0);
          const item = stream.item(names.length);
          if (item === undefined) break;
          const inode = stream.enter(item, engine.table);
          if (inode !== undefined) this.#hold(inode);
          names.push(item.name);
        }
        engine.releaseDirectory(handle);
        return names.join(",");
      }
      case "read":
        return this.#read(await this.#enter(parent, name));
      case "write":
        return this.#write(parent, name, content.slice(0, operation.sizeBytes));
      case "put":
      case "delete":
        return "ok"; // done behind the engine's back
      default:
        return operation.do satisfies never;
    }
  }

  async #read(nodeid: number): Promise<string> {
    const { handle } = await this.engine.open(nodeid, 0, PID);
    let text = "";
    for (;;) {
      const lent = await this.engine.read(handle, text.length, 7);
      if (lent.chunks.length === 0) break;
      text += Buffer.concat(lent.chunks).toString();
      lent.release();
    }
    await this.engine.release(handle);
    return text;
  }

  async #write(parent: number, name: string, content: string): Promise<string> {
    const known = await this.engine.lookup(parent, name);
    const opened =
      known === undefined
        ? await this.#create(parent, name)
        : await this.engine.open(this.#hold(known).nodeid, O_WRONLY_TRUNC, PID);
    for (let at = 0; at < content.length; at += 11) {
      const piece = Buffer.from(content.slice(at, at + 11));
      assert.equal(await this.engine.write(opened.handle, at, piece), piece.length);
    }
    await this.engine.flush(opened.handle, PID);
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

async function agrees(operations: readonly Operation[]): Promise<void> {
  const model = new ReferenceModel();
  const driver = new Driver();
  for (const [index, one] of operations.entries()) {
    const content = `${index}:`.padEnd(100, String(index % 10));
    const isLocalDir = model.localDirs.has(one.path.join("/"));
    const want = model.run(one, content);
    const got = await driver.run(one, content, isLocalDir);
    assert.equal(got, want, `step ${index}: ${one.do} ${one.path.join("/")}`);
    assert.deepEqual(
      driver.store.keys,
      [...model.objects.keys()].toSorted((l, r) => (l < r ? -1 : 1)),
    );
    if (index % 3 === 0) driver.forgetAll();
  }
  driver.forgetAll();
  await new Promise(setImmediate);
  assert.equal(driver.store.unfinishedUploads, 0);
  assert.equal(driver.engine.table.size, 1 + model.localDirs.size, "inodes that nobody needs");
}

test("the engine agrees with the model after every operation, and keeps nothing", async () => {
  await fc.assert(fc.asyncProperty(fc.array(anyOperation, { maxLength: 30 }), agrees), {
    numRuns: 300,
  });
});

import type { ObjectStore } from "../s3/object-store.ts";
import type { Answers } from "./answers.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { InodeTable } from "./inode-table.ts";
import type { Namespace } from "./namespace.ts";
import { PosixFailure } from "./posix-failure.ts";
import { settled } from "./writing.ts";

const DELETE_LIMIT_MS = 120_000;

export interface RemovalDeps {
  readonly store: ObjectStore;
  readonly table: InodeTable;
  readonly names: Namespace;
  readonly answers: Answers;
  readonly config: EngineConfig;
}

/** How names go away. `unique` names the request: it is done once, however often it comes. */
export class Removal {
  readonly #deps: RemovalDeps;

  constructor(deps: RemovalDeps) {
    this.#deps = deps;
  }

  async unlink(parent: number, name: string, unique: string): Promise<void> {
    const { store, table, names, answers, config } = this.#deps;
    if (answers.intentOf(unique) !== undefined) return this.#unlinkAgain(parent, name, unique);
    const inode = await names.mustExist(names.resolve(parent, name));
    if (inode.kind === "directory") throw new PosixFailure("EISDIR", inode.path);
    if (!config.allowDelete) throw new PosixFailure("EPERM", "needs --allow-delete");
    await settled(inode);
    if (inode.upload !== undefined) throw new PosixFailure("EPERM", "it is being written");
    if (!inode.local) {
      const key = names.keyOf(inode.path);
      answers.intend(unique, key, inode.object?.etag ?? "");
      await store.delete(key, AbortSignal.timeout(DELETE_LIMIT_MS));
    }
    table.unbind(inode);
    answers.done(unique);
  }

  /** Only what mkdir made and nobody used: a directory in S3 ends with its last object. */
  async removeDirectory(parent: number, name: string, unique: string): Promise<void> {
    const { table, names, answers } = this.#deps;
    const inode = await names.mustExist(names.resolve(parent, name));
    if (inode.kind !== "directory") throw new PosixFailure("ENOTDIR", inode.path);
    if (!inode.local) throw new PosixFailure("EPERM", "it has objects in S3");
    if (table.localChildren(inode.path).length > 0) {
      throw new PosixFailure("ENOTEMPTY", inode.path);
    }
    table.unbind(inode);
    answers.done(unique);
  }

  async rename(parent: number, name: string): Promise<void> {
    const { names } = this.#deps;
    const inode = await names.mustExist(names.resolve(parent, name));
    if (inode.kind === "directory") throw new PosixFailure("EPERM", "directories can't move");
    if (inode.upload !== undefined) throw new PosixFailure("EPERM", "it is being written");
    throw new PosixFailure("ENOSYS", "S3 has no rename");
  }

  /** It may be done: then it is gone, or what is there now came after it and is not ours. */
  async #unlinkAgain(parent: number, name: string, unique: string): Promise<void> {
    const { store, table, names, answers } = this.#deps;
    const { key = "", etag } = answers.intentOf(unique) ?? {};
    const signal = AbortSignal.timeout(DELETE_LIMIT_MS);
    const object = await store.head(key, signal);
    if (object !== undefined && object.etag === etag) await store.delete(key, signal);
    const known = table.current(names.resolve(parent, name));
    if (known !== undefined && known.object?.etag === etag) table.unbind(known);
    answers.done(unique);
  }
}

import { constants } from "node:os";
import { Failure } from "../base/failure.ts";
import type { ObjectStore } from "../s3/object-store.ts";
import type { Answers, Intent } from "./answers.ts";
import type { Deletions } from "./deletions.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";
import type { Namespace } from "./namespace.ts";
import { PosixFailure } from "./posix-failure.ts";

const NEVER = new AbortController().signal;
/** The outcome of a deletion that S3 has refused, or has not answered. */
const UNFINISHED = constants.errno.EIO;

export interface RemovalDeps {
  readonly store: ObjectStore;
  readonly table: InodeTable;
  readonly names: Namespace;
  readonly answers: Answers;
  readonly deletions: Deletions;
  readonly config: EngineConfig;
  /** Waits for an upload that ends soon, and for a RELEASE that may be on its way. */
  readonly settled: (inode: Inode, leaving: AbortSignal) => Promise<void>;
}

/** An object to delete. `removed` is called when S3 has none of that version any more. */
interface Deletion {
  readonly path: string;
  readonly key: string;
  readonly etag: string;
  readonly removed: () => void;
}

/**
 * How names go away. `unique` names the request: it is done once, however often it comes. A caller
 * that leaves is told EINTR at once, and others go on with the name: from then on its request
 * begins nothing. What it has begun by then is among the Deletions, which all writers wait for.
 *
 * A deletion that has failed has ended, in this engine or in the one that has restored it: programs
 * go on with the file from then on, so that no later engine may send the DELETE.
 */
export class Removal {
  readonly #deps: RemovalDeps;
  /** Deletions that this engine finishes for an earlier one, by their requests. */
  readonly #restored = new Map<string, Promise<void>>();

  constructor(deps: RemovalDeps) {
    this.#deps = deps;
  }

  async unlink(parent: number, name: string, unique: string, leaving = NEVER): Promise<void> {
    const { table, names, answers, config } = this.#deps;
    const path = names.resolve(parent, name);
    const restored = this.#restored.get(unique);
    if (restored !== undefined) return restored;
    const removed = () => table.remove(path);
    const look = async (inode: Inode) => {
      if (inode.kind === "directory") throw new PosixFailure("EISDIR", path);
      if (!config.allowDelete) throw new PosixFailure("EPERM", "needs --allow-delete");
      await this.#deps.settled(inode, leaving);
    };
    return this.#whenFree(path, leaving, look, async (inode) => {
      if (inode.upload !== undefined) throw new PosixFailure("EPERM", "file is open for writing");
      if (!inode.local) {
        const [key, etag] = [names.keyOf(path), inode.object?.etag ?? ""];
        return this.#delete({ path, key, etag, removed }, unique, leaving);
      }
      removed();
      answers.done(unique);
    });
  }

  /**
   * A directory can go when neither this mount nor S3 has anything in it. An empty object that
   * consoles make to show the directory (`dir/`) is deleted with it.
   */
  async removeDirectory(
    parent: number,
    name: string,
    unique: string,
    leaving = NEVER,
  ): Promise<void> {
    const { table, names, answers, config } = this.#deps;
    const path = names.resolve(parent, name);
    const restored = this.#restored.get(unique);
    if (restored !== undefined) return restored;
    const look = async ({ kind }: Inode) => {
      if (kind !== "directory") throw new PosixFailure("ENOTDIR", path);
      this.#checkNothingLocal(path);
      const since = table.changes;
      return { keys: await names.firstKeysUnder(path), since };
    };
    return this.#whenFree(path, leaving, look, async (_, { keys: [first, second], since }) => {
      const removed = () => {
        this.#checkNothingLocal(path);
        // Others go on in it as soon as the caller was interrupted.
        if (table.own.below(path, since)) throw new PosixFailure("ENOTEMPTY", path);
        table.remove(path);
      };
      if (first !== undefined) {
        if (!config.allowDelete) throw new PosixFailure("EPERM", "needs --allow-delete");
        const isMarker = first.key === `${names.keyOf(path)}/` && first.sizeBytes === 0;
        if (!isMarker || second !== undefined) throw new PosixFailure("ENOTEMPTY", path);
        this.#checkNothingLocal(path);
        const deletion = { path, key: first.key, etag: first.etag, removed };
        return this.#delete(deletion, unique, leaving);
      }
      removed();
      answers.done(unique);
    });
  }

  async rename(parent: number, name: string): Promise<void> {
    const { names } = this.#deps;
    const inode = await names.mustExist(names.resolve(parent, name));
    if (inode.kind === "directory") {
      throw new PosixFailure("EPERM", "renaming directories is not supported");
    }
    if (inode.upload !== undefined) throw new PosixFailure("EPERM", "file is open for writing");
    throw new PosixFailure("ENOSYS", "S3 has no rename");
  }

  /**
   * Finishes what an earlier engine has begun and has not seen the end of. Its callers may have
   * left, so that no request comes again; then the names must not be written before.
   */
  restore(prefix: string): void {
    for (const intent of this.#deps.answers.intents) {
      const path = intent.key.slice(prefix.length).replace(/\/$/, "");
      const restored = this.#deleteAgain(path, intent);
      this.#restored.set(intent.unique, restored);
      // A request that comes again after that is answered by the outcome.
      const end = () => this.#restored.delete(intent.unique);
      restored.then(end, end);
    }
  }

  /** For a file that is being opened: ESTALE makes the kernel look the name up again. */
  async checkNotDeleted(inode: Inode): Promise<void> {
    const { deletions } = this.#deps;
    if (!deletions.isUnderWay(inode.path)) return;
    await deletions.ended(inode.path);
    this.checkNotDeleting(inode);
  }

  /** Does not wait: ESTALE while the file is being deleted, and afterwards. */
  checkNotDeleting(inode: Inode): void {
    const { table, deletions } = this.#deps;
    const isThere = table.current(inode.path) === inode;
    if (isThere && !deletions.isUnderWay(inode.path)) return;
    throw new Failure("stale", `${inode.path} was deleted`);
  }

  #checkNothingLocal(path: string): void {
    if (this.#deps.table.hasLocalBelow(path)) throw new PosixFailure("ENOTEMPTY", path);
  }

  /**
   * Acts on a name in the very turn in which no deletion of it is under way and what was seen
   * there holds. An inode that only this request knows may be pruned while a directory is listed.
   */
  async #whenFree<Seen>(
    path: string,
    leaving: AbortSignal,
    look: (inode: Inode) => Promise<Seen>,
    act: (inode: Inode, seen: Seen) => Promise<void>,
  ): Promise<void> {
    const { table, names, deletions } = this.#deps;
    for (;;) {
      while (deletions.isUnderWay(path)) await deletions.ended(path, leaving);
      const inode = await names.mustExist(path);
      const seen = await look(inode);
      // A caller that was told EINTR must not find that its request was begun after that.
      if (leaving.aborted) throw new PosixFailure("EINTR", `${path}: its remover was interrupted`);
      const current = table.current(path) ?? (inode.kind === "directory" ? inode : undefined);
      if (current === inode && !deletions.isUnderWay(path)) return act(inode, seen);
    }
  }

  async #delete(deletion: Deletion, unique: string, leaving: AbortSignal): Promise<void> {
    const { store, table, answers, deletions, config } = this.#deps;
    const { path, key, etag, removed } = deletion;
    // Before S3 is asked: as soon as the object is gone, its directories may have no key left.
    table.markEmptied(path);
    answers.intend(unique, key, etag);
    await deletions.run(path, async () => {
      try {
        await store.delete(key, AbortSignal.timeout(config.requestLimitMs), etag || undefined);
        removed();
        answers.done(unique);
      } catch (error) {
        // The reply to a caller that is still there notes the exact error in place of this one.
        answers.done(unique, UNFINISHED);
        throw error;
      } finally {
        if (leaving.aborted) answers.commit();
      }
    });
  }

  /** S3 may have deleted it: then it is gone, or what is there now came later and is not ours. */
  #deleteAgain(path: string, { unique, key, etag }: Intent): Promise<void> {
    const { store, table, answers, deletions, config } = this.#deps;
    return deletions.run(path, async () => {
      try {
        const signal = AbortSignal.timeout(config.requestLimitMs);
        const object = await store.head(key, signal);
        if (object !== undefined && object.etag === etag) await store.delete(key, signal, etag);
        const known = table.current(path);
        const isOurs = key.endsWith("/")
          ? known?.kind === "directory" && !known.local && !table.hasLocalBelow(path)
          : known?.object?.etag === etag;
        if (known === undefined || isOurs) table.remove(path);
        answers.done(unique);
      } catch (error) {
        answers.done(unique, UNFINISHED);
        throw error;
      } finally {
        answers.commit();
      }
    });
  }
}

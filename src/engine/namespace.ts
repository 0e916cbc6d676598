import { Failure } from "../base/failure.ts";
import type { ListPage, ListQuery, ObjectInfo, ObjectStore } from "../s3/object-store.ts";
import { DirectoryStream } from "./directory-stream.ts";
import type { DirectorySource, Place } from "./directory-stream.ts";
import { checkName, childPathOf } from "./file-name.ts";
import type { FlatSource, Told } from "./flat-walk.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";
import { PosixFailure } from "./posix-failure.ts";
import { SiblingRefresh } from "./sibling-refresh.ts";

const LIST_PAGE_KEYS = 1000;
const OPERATION_LIMIT_MS = 120_000;

export interface NamespaceOptions {
  readonly prefix: string;
  readonly metadataTtlMs: number;
}

/** Names to inodes: a tree of directories read out of flat keys, with what is only local. */
export class Namespace {
  readonly #store: ObjectStore;
  readonly #table: InodeTable;
  readonly #options: NamespaceOptions;
  readonly #siblings: SiblingRefresh;
  readonly #looking = new Map<string, Promise<Inode | undefined>>();

  constructor(store: ObjectStore, table: InodeTable, options: NamespaceOptions) {
    this.#store = store;
    this.#table = table;
    this.#options = options;
    this.#siblings = new SiblingRefresh(table, (directory) => this.list(directory));
  }

  keyOf(path: string): string {
    return this.#options.prefix + path;
  }

  /** The directory behind a nodeid, and the path of a name in it. */
  resolve(parentNodeid: number, name: string): string {
    checkName(name);
    const parent = this.#table.get(parentNodeid);
    if (parent.kind !== "directory") throw new PosixFailure("ENOTDIR", parent.path);
    return childPathOf(parent.path, name);
  }

  /** What is known and still valid, else what S3 says now. Undefined: there is no such thing. */
  lookup(path: string): Inode | undefined | Promise<Inode | undefined> {
    const known = this.#table.current(path);
    if (known?.upload !== undefined) return known;
    if (known === undefined) return this.lookupFresh(path);
    if (known.validUntilMs > Date.now()) return known;
    const refreshed = this.#siblings.refresh(known);
    if (refreshed === undefined) return this.lookupFresh(path);
    return refreshed.then(() => {
      const isCurrent = this.#table.current(path) === known && known.validUntilMs > Date.now();
      return isCurrent ? known : this.lookupFresh(path);
    });
  }

  /** Asks S3 whatever we know. Callers for the same path at the same time share one answer. */
  lookupFresh(path: string): Promise<Inode | undefined> {
    const underWay = this.#looking.get(path);
    if (underWay !== undefined) return underWay;
    const asked = this.#ask(path).finally(() => this.#looking.delete(path));
    this.#looking.set(path, asked);
    return asked;
  }

  async mustExist(path: string): Promise<Inode> {
    const inode = await this.lookup(path);
    if (inode === undefined) throw new Failure("absent", `${path} does not exist`);
    return inode;
  }

  /** The directory as it is from now on, or was when it was `told`, read as the caller goes. */
  list(directory: Inode, from?: Place, told?: Told): DirectoryStream {
    const prefix = this.#prefixOf(directory.path);
    const ageMs = told === undefined ? 0 : performance.now() - told.stamp.sinceMs;
    let known = told?.page; // told once: who asks again after a failure wants another answer
    const source: DirectorySource = {
      path: directory.path,
      prefix,
      locals: this.#table.localChildren(directory.path),
      ttlMs: this.#options.metadataTtlMs - ageMs,
      page: (token, startAfter) => {
        const ask = () => this.#page({ prefix, delimiter: "/" }, token, startAfter);
        const isFirst = token === undefined && startAfter === undefined;
        if (known === undefined || !isFirst) return ask();
        const first = known.then((page) => page ?? ask());
        known = undefined;
        return first;
      },
      hasKeysUnder: (name) =>
        this.#hasKeysUnder(prefix + name, AbortSignal.timeout(OPERATION_LIMIT_MS)),
    };
    return new DirectoryStream(source, from);
  }

  /** All that is below a directory, however deep. */
  below(path: string): FlatSource {
    const prefix = this.#prefixOf(path);
    return {
      prefix,
      page: (startAfter) => this.#page({ prefix, delimiter: "" }, undefined, startAfter),
    };
  }

  #prefixOf(path: string): string {
    return path === "" ? this.keyOf("") : `${this.keyOf(path)}/`;
  }

  #page(
    query: Pick<ListQuery, "prefix" | "delimiter">,
    continuationToken: string | undefined,
    startAfter: string | undefined,
  ): Promise<ListPage> {
    const signal = AbortSignal.timeout(OPERATION_LIMIT_MS);
    const keysMax = LIST_PAGE_KEYS;
    return this.#store.list({ ...query, keysMax, continuationToken, startAfter }, signal);
  }

  /** A directory shadows a file of the same name; only S3 can say, so both are asked at once. */
  async #ask(path: string): Promise<Inode | undefined> {
    const signal = AbortSignal.timeout(OPERATION_LIMIT_MS);
    const key = this.keyOf(path);
    const [isDirectory, object] = await Promise.all([
      this.#hasKeysUnder(key, signal), // first: it takes longer
      this.#store.head(key, signal),
    ]);
    return this.#bind(path, isDirectory ? "directory" : object);
  }

  async #hasKeysUnder(key: string, signal: AbortSignal): Promise<boolean> {
    const under = { prefix: `${key}/`, delimiter: "", keysMax: 1 } as const;
    const page = await this.#store.list({ ...under, continuationToken: undefined }, signal);
    return page.objects.length > 0 || page.prefixes.length > 0;
  }

  #bind(path: string, found: "directory" | ObjectInfo | undefined): Inode | undefined {
    const known = this.#table.current(path);
    if (known?.upload !== undefined) return known; // writing began while we asked
    if (found === undefined) {
      if (known?.local === true) return known;
      if (known !== undefined) this.#table.unbind(known);
      return undefined;
    }
    const inode =
      found === "directory" ? this.#table.bindDirectory(path) : this.#table.bindFile(path, found);
    inode.validUntilMs = Date.now() + this.#options.metadataTtlMs;
    // Who asked takes its reference in this turn of the event loop, or does not need one.
    setImmediate(() => this.#table.prune(inode));
    return inode;
  }
}

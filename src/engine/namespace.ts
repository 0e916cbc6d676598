import { Failure } from "../base/failure.ts";
import type { ListedObject, ListQuery, ObjectInfo, ObjectStore } from "../s3/object-store.ts";
import { DirectoryStream } from "./directory-stream.ts";
import type { DirectorySource, Place } from "./directory-stream.ts";
import { checkName, childPathOf } from "./file-name.ts";
import type { FlatSource, Told } from "./flat-walk.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";
import type { AskedPage } from "./page-sequence.ts";
import { PosixFailure } from "./posix-failure.ts";
import { SiblingRefresh } from "./sibling-refresh.ts";

const LIST_PAGE_KEYS = 1000;

export interface NamespaceOptions {
  readonly prefix: string;
  readonly metadataTtlMs: number;
  readonly requestLimitMs: number;
}

/** Names to inodes: a tree of directories read out of flat keys, with what is only local. */
export class Namespace {
  readonly #store: ObjectStore;
  readonly #table: InodeTable;
  readonly #options: NamespaceOptions;
  readonly #siblings: SiblingRefresh;
  readonly #looking = new Map<string, Promise<Inode | undefined>>();
  /** Lookups that begin when the one under way has ended: see lookupFresh(). */
  readonly #lookingNext = new Map<string, Promise<Inode | undefined>>();

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

  /**
   * The inode as it is known and still valid, else as S3 says now. Undefined: there is no such
   * thing. `pid`: the thread whose open(2) need not ask S3 once more.
   */
  lookup(path: string, pid = 0): Inode | undefined | Promise<Inode | undefined> {
    const known = this.#table.current(path);
    if (known?.upload !== undefined) return known;
    if (known === undefined) return this.lookupFresh(path, pid);
    if (known.validUntilMs > performance.now()) return known;
    const refreshed = this.#siblings.refresh(known);
    if (refreshed === undefined) return this.lookupFresh(path, pid);
    return refreshed.then(() => {
      const isCurrent =
        this.#table.current(path) === known && known.validUntilMs > performance.now();
      return isCurrent ? known : this.lookupFresh(path, pid);
    });
  }

  /**
   * Asks S3 whatever we know. An answer that is on its way may be older than what another client
   * has done before this call: callers that come meanwhile share the next answer, or the failure.
   */
  lookupFresh(path: string, pid = 0): Promise<Inode | undefined> {
    const underWay = this.#looking.get(path);
    if (underWay === undefined) return this.#look(path, pid);
    const known = this.#lookingNext.get(path);
    if (known !== undefined) return known;
    const next = underWay
      .finally(() => this.#lookingNext.delete(path))
      .then(() => this.#look(path, pid));
    this.#lookingNext.set(path, next);
    return next;
  }

  #look(path: string, pid: number): Promise<Inode | undefined> {
    const asked = this.#ask(path, pid).finally(() => {
      if (this.#looking.get(path) === asked) this.#looking.delete(path);
    });
    this.#looking.set(path, asked);
    return asked;
  }

  /**
   * Asks S3 whether the object is still the version that the inode stands for. Whatever S3 says,
   * the next lookup of the name knows it.
   */
  async revalidate(inode: Inode): Promise<boolean> {
    const { path } = inode;
    const etag = inode.object?.etag;
    const since = this.#table.changes;
    if (this.#table.current(path) !== inode) return false; // another version, or a directory
    const signal = this.#limit();
    const askedMs = performance.now();
    const object = await this.#store.head(this.keyOf(path), signal);
    if (inode.object?.etag !== etag) return true; // written here meanwhile, and so newer
    if (this.#table.current(path) !== inode) return false; // a HEAD does not tell of directories
    if (this.#table.own.of(path, since) !== undefined) return false; // removed here meanwhile
    return this.#bind(path, object, { since, askedMs }) === inode;
  }

  /** This is the current version, says S3, which was asked at that time. */
  prolong(inode: Inode, askedMs: number): void {
    inode.validUntilMs = askedMs + this.#options.metadataTtlMs;
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
        const since = told?.stamp.changes ?? 0;
        const first = known.then((page) => (page === undefined ? ask() : { ...page, since }));
        known = undefined;
        return first;
      },
      hasKeysUnder: (name) => this.#hasKeysUnder(prefix + name, this.#limit()),
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

  /** The first keys below a directory, its own marker included: two say whether that is all. */
  async firstKeysUnder(path: string): Promise<readonly ListedObject[]> {
    const query = { prefix: this.#prefixOf(path), delimiter: "", keysMax: 2 } as const;
    const signal = this.#limit();
    const page = await this.#store.list({ ...query, continuationToken: undefined }, signal);
    return page.objects;
  }

  #limit(): AbortSignal {
    return AbortSignal.timeout(this.#options.requestLimitMs);
  }

  #prefixOf(path: string): string {
    return path === "" ? this.keyOf("") : `${this.keyOf(path)}/`;
  }

  async #page(
    query: Pick<ListQuery, "prefix" | "delimiter">,
    continuationToken: string | undefined,
    startAfter: string | undefined,
  ): Promise<AskedPage> {
    const since = this.#table.changes;
    const signal = this.#limit();
    const asked = { ...query, keysMax: LIST_PAGE_KEYS, continuationToken, startAfter };
    const { objects, prefixes, nextToken } = await this.#store.list(asked, signal);
    return { objects, prefixes, nextToken, since };
  }

  /** A directory shadows a file of the same name; only S3 can say, so both are asked at once. */
  async #ask(path: string, pid: number): Promise<Inode | undefined> {
    const signal = this.#limit();
    const key = this.keyOf(path);
    for (;;) {
      const since = this.#table.changes;
      const askedMs = performance.now();
      let answeredMs = 0;
      const [isDirectory, object] = await Promise.all([
        this.#hasKeysUnder(key, signal), // first: it takes longer
        this.#store.head(key, signal).finally(() => (answeredMs = performance.now())),
      ]);
      if (this.#table.current(path)?.upload === undefined) {
        const { own } = this.#table;
        if (own.of(path, since) !== undefined) continue; // the answer may be older
        if (!isDirectory && own.below(path, since)) continue;
      }
      const inode = this.#bind(path, isDirectory ? "directory" : object, { since, askedMs });
      if (inode?.upload === undefined) inode?.confirm(pid, answeredMs);
      return inode;
    }
  }

  async #hasKeysUnder(key: string, signal: AbortSignal): Promise<boolean> {
    const under = { prefix: `${key}/`, delimiter: "", keysMax: 1 } as const;
    const page = await this.#store.list({ ...under, continuationToken: undefined }, signal);
    return page.objects.length > 0 || page.prefixes.length > 0;
  }

  #bind(
    path: string,
    found: "directory" | ObjectInfo | undefined,
    { since, askedMs }: { readonly since: number; readonly askedMs: number },
  ): Inode | undefined {
    const known = this.#table.current(path);
    if (known?.upload !== undefined) return known; // writing began while we asked
    if (found === undefined) return this.#withoutKeys(path, known);
    const inode =
      found === "directory"
        ? this.#table.bindDirectory(path, since)
        : this.#table.bindFile(path, found);
    this.prolong(inode, askedMs);
    // The caller takes its reference in this turn of the event loop, or does not need one.
    setImmediate(() => this.#table.prune(inode));
    return inode;
  }

  /** The inode of a name that S3 has nothing of, if there is one. */
  #withoutKeys(path: string, known: Inode | undefined): Inode | undefined {
    if (known?.local === true) return known;
    if (this.#table.hasLocalBelow(path)) return this.#table.bindLocalDirectory(path);
    if (known === undefined || this.#table.isEmptied(known)) return known;
    this.#table.unbind(known);
    return undefined;
  }
}

import type { ListedObject, ListPage, ObjectInfo } from "../s3/object-store.ts";
import { childPathOf, isVisibleName, nameOf } from "./file-name.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";
import { compareKeys } from "./key-order.ts";
import { lastKeyOf, PageSequence } from "./page-sequence.ts";
import type { DatedPage, PageSource } from "./page-sequence.ts";

/**
 * Fewer items than this ahead of the reader: the next page is read. Several pages, so that the
 * endpoint works on the next one also while the reader is at work on the last.
 */
const READ_AHEAD_ITEMS = 2000;
/** Several such directories fit into one page. */
const SMALL_ITEMS = 250;

export interface ListedItem {
  readonly name: string;
  readonly kind: "file" | "directory";
  /** Not in S3: there is nothing to learn about it from the listing. */
  readonly local: boolean;
  readonly object: ObjectInfo | undefined;
  readonly validUntilMs: number;
  /** The count of own changes when S3 was asked for it: see OwnChanges. */
  readonly since: number;
}

export interface DirectorySource extends PageSource {
  readonly path: string;
  readonly locals: readonly Inode[];
  hasKeysUnder(name: string): Promise<boolean>;
}

/** An answer of S3 is worth as much as the time at which it was asked for. */
type Dates = Pick<DatedPage, "since" | "validUntilMs">;

/** The last object of a page, which is listed with the next one. */
interface HeldBack extends Dates {
  readonly object: ListedObject;
}

/** The item at `index` is the first one behind the key, which is relative to the directory. */
export interface Place {
  readonly index: number;
  readonly after: string;
}

/**
 * A directory's content, page by page as it is read; what the reader has passed is let go. The
 * order is that of S3: by bytes of the key, so a directory stands where `name/` does.
 * INVARIANT: no name comes twice; a directory hides a file of its name, S3 what is only local.
 */
export class DirectoryStream {
  readonly #source: DirectorySource;
  readonly #locals: { readonly key: string; readonly item: ListedItem }[];
  #items: ListedItem[] = [];
  #firstIndex = 0;
  readonly #pages: PageSequence;
  #complete = false;
  #hasDirectories = false;
  #heldBack: HeldBack | undefined;
  #lastPrefix = "";
  #loading: Promise<void> | undefined;
  readonly #after: string;
  #passed: string;

  /** `from`: not from its beginning, but where an earlier stream of it has come to. */
  constructor(source: DirectorySource, from: Place = { index: 0, after: "" }) {
    this.#source = source;
    this.#firstIndex = from.index;
    this.#after = from.after;
    this.#pages = new PageSequence(
      source,
      from.after === "" ? undefined : source.prefix + from.after,
    );
    this.#passed = from.after;
    this.#locals = source.locals
      .map(({ path, kind }) => {
        const name = nameOf(path);
        const item = { name, kind, local: true, object: undefined, validUntilMs: 0, since: 0 };
        return { key: `${name}/`, item }; // behind a file in S3 of this name, at its directory
      })
      .filter(({ key }) => this.#after === "" || compareKeys(key, this.#after) > 0)
      .toSorted((left, right) => compareKeys(left.key, right.key));
  }

  /** How another stream can go on where this one is. */
  get place(): Place {
    return { index: this.#firstIndex, after: this.#passed };
  }

  /** Items that are in memory now. */
  get loadedCount(): number {
    return this.#items.length;
  }

  /** Known to its end: a few files and nothing else. */
  get isSmallLeaf(): boolean {
    const count = this.#firstIndex + this.#items.length;
    return this.#complete && !this.#hasDirectories && count <= SMALL_ITEMS;
  }

  /** What was let go can't be read again: the caller has to begin anew. */
  reaches(index: number): boolean {
    return index >= this.#firstIndex;
  }

  /** Until the item is there, or the directory has ended. Lets go of all before it. */
  async load(index: number): Promise<void> {
    while (!this.#complete && this.item(index) === undefined) {
      this.#letGo(index);
      await this.#loadPage();
    }
    this.#letGo(index);
    if (!this.#complete && this.#items.length < READ_AHEAD_ITEMS) {
      this.#loadPage().catch(() => undefined); // whoever needs it asks again and is told
    }
  }

  /** Like load(), for a reader that has not passed what is before the item. */
  async loadOn(index: number): Promise<void> {
    while (!this.#complete && this.item(index) === undefined) await this.#loadPage();
  }

  item(index: number): ListedItem | undefined {
    return this.#items[index - this.#firstIndex];
  }

  /**
   * The inode of an item, made if need be. `gone`: it was removed here after S3 was asked.
   * `unknown`: it was replaced here after that, or nobody can tell.
   */
  enter(item: ListedItem, table: InodeTable): Inode | "gone" | "unknown" {
    const path = childPathOf(this.#source.path, item.name);
    const known = table.current(path);
    if (item.local || known?.upload !== undefined) return known ?? "gone";
    if (known !== undefined && known.validUntilMs > item.validUntilMs) return known;
    const change = table.own.of(path, item.since);
    if (change !== undefined) return known ?? (change === "removed" ? "gone" : "unknown");
    const inode =
      item.object === undefined
        ? table.bindDirectory(path, item.since)
        : table.bindFile(path, item.object);
    inode.validUntilMs = item.validUntilMs;
    return inode;
  }

  #letGo(index: number): void {
    const passed = Math.min(index - this.#firstIndex, this.#items.length);
    if (passed <= 0) return;
    const last = this.#items[passed - 1];
    if (last !== undefined) this.#passed = sortKeyOf(last);
    this.#items = this.#items.slice(passed);
    this.#firstIndex += passed;
  }

  #loadPage(): Promise<void> {
    this.#loading ??= this.#addNext().finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  async #addNext(): Promise<void> {
    const page = await this.#pages.current();
    const before = this.#heldBack;
    const objects = before ? [before.object, ...page.objects] : [...page.objects];
    const lastKey = lastKeyOf({ objects, prefixes: page.prefixes });
    // Whether the last object is hidden by its directory is seen in the next page at the latest.
    const isCut = page.nextToken !== undefined && objects.at(-1)?.key === lastKey;
    const object = isCut ? objects.pop() : undefined;
    const hidden = await this.#hiddenFiles(objects, page, lastKey);
    const { since, validUntilMs } = object === before?.object ? (before ?? page) : page;
    this.#heldBack = object && { object, since, validUntilMs };
    this.#pages.pass(page);
    this.#addAll(objects, hidden, page, before);
    if (page.nextToken !== undefined) return;
    for (const { item } of this.#locals) this.#items.push(item);
    this.#complete = true;
  }

  /**
   * Files whose name is a directory too. Most are seen in the page itself. Only for a file that
   * the page's last key goes on from (`a` before `a-1`) the directory `a/` may be in a later page.
   */
  async #hiddenFiles(objects: readonly ListedObject[], page: ListPage, lastKey: string) {
    const hidden = new Set(page.prefixes.map((prefix) => prefix.slice(0, -1)));
    if (page.nextToken === undefined) return hidden;
    for (const { key } of objects) {
      if (hidden.has(key) || key === lastKey || !lastKey.startsWith(key)) continue;
      if (compareKeys(`${key}/`, lastKey) <= 0) continue;
      if (await this.#source.hasKeysUnder(key.slice(this.#source.prefix.length))) hidden.add(key);
    }
    return hidden;
  }

  #addAll(
    objects: readonly ListedObject[],
    hidden: ReadonlySet<string>,
    page: DatedPage,
    before: HeldBack | undefined,
  ): void {
    const { prefixes } = page;
    let next = 0;
    const addPrefixesBefore = (key: string | undefined) => {
      for (; next < prefixes.length; next++) {
        const prefix = prefixes[next] ?? "";
        if (key !== undefined && compareKeys(prefix, key) > 0) return;
        if (prefix !== this.#lastPrefix) this.#add(prefix, undefined, page);
        this.#lastPrefix = prefix;
      }
    };
    for (const object of objects) {
      addPrefixesBefore(object.key);
      const asked = before?.object === object ? before : page;
      if (!hidden.has(object.key)) this.#add(object.key, object, asked);
    }
    addPrefixesBefore(undefined);
  }

  #add(key: string, object: ListedObject | undefined, asked: Dates): void {
    const rest = key.slice(this.#source.prefix.length);
    const name = object === undefined ? rest.slice(0, -1) : rest;
    if (!isVisibleName(name)) return;
    // S3 gives a directory again whose keys go on behind the place.
    if (this.#after !== "" && compareKeys(rest, this.#after) <= 0) return;
    const same = this.#locals.findIndex(({ item }) => item.name === name);
    if (same !== -1) this.#locals.splice(same, 1);
    while (this.#locals[0] !== undefined && compareKeys(this.#locals[0].key, rest) < 0) {
      const local = this.#locals.shift();
      if (local !== undefined) this.#items.push(local.item);
    }
    const kind = object === undefined ? "directory" : "file";
    this.#hasDirectories ||= kind === "directory";
    const { validUntilMs, since } = asked;
    this.#items.push({ name, kind, local: false, object, validUntilMs, since });
  }
}

function sortKeyOf({ name, kind, local }: ListedItem): string {
  return local || kind === "directory" ? `${name}/` : name;
}

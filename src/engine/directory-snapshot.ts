import type { ListPage, ObjectInfo } from "../s3/object-store.ts";
import { childPathOf, isVisibleName } from "./file-name.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";

export interface SnapshotItem {
  readonly name: string;
  readonly kind: "file" | "directory";
  /** Not in S3: there is nothing to learn about it from the listing. */
  readonly local: boolean;
  readonly object: ObjectInfo | undefined;
}

/** One moment's content of a directory, in the order of names. */
export class DirectorySnapshot {
  readonly #path: string;
  readonly #prefix: string;
  readonly #validUntilMs: number;
  readonly #byName = new Map<string, SnapshotItem>();
  #items: readonly SnapshotItem[] = [];

  constructor(path: string, prefix: string, { validUntilMs }: { readonly validUntilMs: number }) {
    this.#path = path;
    this.#prefix = prefix;
    this.#validUntilMs = validUntilMs;
  }

  get items(): readonly SnapshotItem[] {
    return this.#items;
  }

  /** Keys that can't be names are hidden; a directory hides a file of the same name. */
  add(page: ListPage): void {
    for (const object of page.objects) {
      const name = object.key.slice(this.#prefix.length);
      if (!isVisibleName(name) || this.#byName.get(name)?.kind === "directory") continue;
      this.#byName.set(name, { name, kind: "file", local: false, object });
    }
    for (const prefix of page.prefixes) {
      const name = prefix.slice(this.#prefix.length, -1);
      if (isVisibleName(name)) {
        this.#byName.set(name, { name, kind: "directory", local: false, object: undefined });
      }
    }
  }

  /** What S3 has wins over what is only here. */
  finish(localChildren: readonly Inode[]): void {
    for (const { path, kind } of localChildren) {
      const name = path.slice(path.lastIndexOf("/") + 1);
      if (this.#byName.has(name)) continue;
      this.#byName.set(name, { name, kind, local: true, object: undefined });
    }
    const items = [...this.#byName.values()];
    this.#items = items.toSorted((left, right) => (left.name < right.name ? -1 : 1));
  }

  /** The inode of an item, made if need be; undefined when a local one has gone meanwhile. */
  enter(item: SnapshotItem, table: InodeTable): Inode | undefined {
    const path = childPathOf(this.#path, item.name);
    const known = table.current(path);
    if (item.local || known?.upload !== undefined) return known;
    if (known !== undefined && known.validUntilMs > this.#validUntilMs) return known;
    const inode =
      item.object === undefined ? table.bindDirectory(path) : table.bindFile(path, item.object);
    inode.validUntilMs = this.#validUntilMs;
    return inode;
  }
}

import { parentPathOf } from "./file-name.ts";

/** More than are made while a listing is read; an older listing leaves its names to lookups. */
const PATHS_MAX = 4096;

interface Change {
  readonly at: number;
  readonly what: "removed" | "uploaded";
}

/**
 * Changes that this mount has made lately, numbered in order. An answer of S3 whose request
 * began before such a change may show the time before it: it must not undo the change.
 */
export class OwnChanges {
  readonly #byPath = new Map<string, Change>();
  /** For each directory the last change anywhere below it. */
  readonly #below = new Map<string, number>();
  #count = 0;
  /** The last change that is no longer in the maps. */
  #dropped = 0;

  /** Requests remember it from when they began. */
  get count(): number {
    return this.#count;
  }

  /** Something else was changed: what was prepared before it is not used. */
  increase(): void {
    this.#count += 1;
  }

  add(path: string, what: Change["what"]): void {
    this.#count += 1;
    const at = this.#count;
    this.#byPath.delete(path); // the newest is the last
    this.#byPath.set(path, { at, what });
    for (let above = parentPathOf(path); above !== ""; above = parentPathOf(above)) {
      this.#below.delete(above);
      this.#below.set(above, at);
    }
    this.#dropOldest();
  }

  /** The change of the path since the count was `since`; `unknown` when that is too long ago. */
  of(path: string, since: number): Change["what"] | "unknown" | undefined {
    const change = this.#byPath.get(path);
    if (change === undefined) return since < this.#dropped ? "unknown" : undefined;
    return change.at > since ? change.what : undefined;
  }

  /** Whether anything below a directory was changed since then, or may have been. */
  below(path: string, since: number): boolean {
    return (this.#below.get(path) ?? this.#dropped) > since;
  }

  #dropOldest(): void {
    for (const [path, { at }] of this.#byPath) {
      if (this.#byPath.size <= PATHS_MAX) break;
      this.#byPath.delete(path);
      this.#dropped = Math.max(this.#dropped, at);
    }
    for (const [path, at] of this.#below) {
      if (this.#below.size <= PATHS_MAX) break;
      this.#below.delete(path);
      this.#dropped = Math.max(this.#dropped, at);
    }
  }
}

import * as fc from "fast-check";

export type Path = readonly string[];
export interface Operation {
  /**
   * `share`: a write of which other threads do a part, while a forked process closes its copy.
   * `astray`: a write, another one that does not go on at the end, one that does, then close(2).
   * `reread`: a read; another client replaces the object between its first piece and the rest.
   * `map`: a shared mapping for stores, of a file that is opened for reading and writing.
   * `removeTree`: rm -rf, so all files below and then all directories from the leaves up.
   */
  readonly do:
    | "write"
    | "share"
    | "astray"
    | "read"
    | "reread"
    | "map"
    | "mkdir"
    | "rmdir"
    | "unlink"
    | "removeTree"
    | "list"
    | "put"
    | "delete";
  readonly path: Path;
  readonly sizeBytes: number;
  /** Writes what others write, too: equal contents have equal ETags. */
  readonly isCommon?: boolean;
}
export type Outcome = string;

/** After a write astray every call on the file fails, to the close that tells how it ended. */
const ASTRAY_OUTCOME = "EINVAL EINVAL EINVAL";

/** The bytes of an operation that writes, of which a file takes the first `sizeBytes`. */
export function contentOf({ isCommon = false }: Operation, index: number): string {
  return isCommon ? "common:".padEnd(100, "c") : `${index}:`.padEnd(100, String(index % 10));
}

/** The bytes before a write astray, and its offset: back, overlapping, or beyond the end. */
export function strayOf({ sizeBytes }: Operation, content: string) {
  const first = content.slice(0, Math.max(1, sizeBytes));
  const at = [0, first.length - 1, first.length + 1][sizeBytes % 3] ?? 0;
  return { first, at };
}

/** A reader whose object was replaced may get the rest of its version, or an error. */
export function isRight({ do: verb }: Operation, got: Outcome, want: Outcome): boolean {
  return got === want || (verb === "reread" && got === "ESTALE");
}

/** The one definition of right: all keys and all local directories; everything else is derived. */
export class ReferenceModel {
  readonly objects = new Map<string, string>();
  readonly localDirs = new Set<string>();
  /** Directories in which the mount removed something: found by name while S3 has no key there. */
  readonly emptied = new Set<string>();

  run({ do: verb, path, sizeBytes }: Operation, content: string): Outcome {
    const key = path.join("/");
    if (verb === "put") {
      if (!this.localDirs.has(key)) this.objects.set(key, content);
      return "ok";
    }
    if (verb === "delete") {
      this.objects.delete(key);
      return "ok";
    }
    const parentKind = this.#walk(path.slice(0, -1));
    if (parentKind !== "directory") return parentKind === "file" ? "ENOTDIR" : "absent";
    const kind = this.#visit(key);
    switch (verb) {
      case "list":
        return kind === "directory" ? this.#list(key) : kind === "file" ? "ENOTDIR" : "absent";
      case "read":
      case "reread": {
        if (kind !== "file") return kind === "directory" ? "EISDIR" : "absent";
        const seen = this.objects.get(key) ?? "";
        if (verb === "reread") this.objects.set(key, content);
        return seen;
      }
      case "map":
        if (kind !== "file") return kind === "directory" ? "EISDIR" : "absent";
        return "ENODEV"; // stores could not be kept, and others would see them
      case "astray":
        return kind === "directory" ? "EISDIR" : ASTRAY_OUTCOME;
      case "write":
      case "share":
        if (kind === "directory") return "EISDIR";
        this.objects.set(key, content.slice(0, sizeBytes));
        for (const dir of ancestorsOf(key)) this.#forgetDirectory(dir);
        return "ok";
      case "mkdir":
        if (kind !== undefined) return "conflict";
        this.localDirs.add(key);
        return "ok";
      case "rmdir":
        return this.#rmdir(key, kind);
      case "unlink":
        return this.#unlink(key, kind);
      case "removeTree":
        return this.#removeTree(key);
      default:
        return verb satisfies never;
    }
  }

  #unlink(key: string, kind: string | undefined): Outcome {
    if (kind !== "file") return kind === "directory" ? "EISDIR" : "absent";
    this.objects.delete(key);
    this.#markEmptied(key);
    return "ok";
  }

  #removeTree(key: string): Outcome {
    if (this.#visit(key) !== "directory") return this.#unlink(key, this.#visit(key));
    const names = this.#list(key).split(",");
    for (const name of names.filter((one) => one !== "")) {
      const outcome = this.#removeTree(`${key}/${name}`);
      if (outcome !== "ok") return outcome;
    }
    return this.#rmdir(key, this.#visit(key));
  }

  #rmdir(key: string, kind: string | undefined): Outcome {
    if (kind !== "directory") return kind === "file" ? "ENOTDIR" : "absent";
    if (this.#isAbove(key, this.localDirs) || this.#isAbove(key, this.objects.keys())) {
      return "ENOTEMPTY";
    }
    this.#forgetDirectory(key);
    for (const dir of this.emptied) if (dir.startsWith(`${key}/`)) this.emptied.delete(dir);
    this.#markEmptied(key);
    return "ok";
  }

  #markEmptied(key: string): void {
    for (const dir of ancestorsOf(key)) if (!this.localDirs.has(dir)) this.emptied.add(dir);
  }

  #forgetDirectory(key: string): void {
    this.localDirs.delete(key);
    this.emptied.delete(key);
  }

  #isAbove(key: string, paths: Iterable<string>): boolean {
    return [...paths].some((path) => path.startsWith(`${key}/`));
  }

  #walk(path: Path): "directory" | "file" | undefined {
    let kind: "directory" | "file" | undefined = "directory";
    for (let n = 1; n <= path.length; n++) {
      if (kind !== "directory") return kind;
      kind = this.#visit(path.slice(0, n).join("/"));
    }
    return kind;
  }

  /** What a lookup sees; a local directory that S3 has too is no longer a local one. */
  #visit(key: string): "directory" | "file" | undefined {
    if (key === "") return "directory";
    if (this.#isAbove(key, this.objects.keys())) {
      this.#forgetDirectory(key);
      return "directory";
    }
    if (this.objects.has(key)) {
      this.emptied.delete(key);
      return "file";
    }
    if (this.#isAbove(key, this.localDirs)) {
      this.#forgetDirectory(key);
      this.localDirs.add(key);
    }
    return this.localDirs.has(key) || this.emptied.has(key) ? "directory" : undefined;
  }

  #list(key: string): string {
    const prefix = key === "" ? "" : `${key}/`;
    const below = (paths: Iterable<string>) =>
      [...paths].filter((path) => path.startsWith(prefix)).map((path) => path.slice(prefix.length));
    const names = new Set(below(this.objects.keys()).map((rest) => rest.split("/")[0] ?? ""));
    for (const rest of below(this.localDirs)) if (!rest.includes("/")) names.add(rest);
    for (const name of names) this.#visit(prefix + name); // a listing looks at each of its names
    return [...names].toSorted((left, right) => (left < right ? -1 : 1)).join(",");
  }
}

function ancestorsOf(key: string): string[] {
  const parts = key.split("/").slice(0, -1);
  return parts.map((_, n) => parts.slice(0, n + 1).join("/"));
}

// A small alphabet on purpose: a file and a directory of one name are the interesting part.
export const anyOperation: fc.Arbitrary<Operation> = fc.record({
  do: fc.constantFrom(
    "write",
    "write",
    "share",
    "astray",
    "read",
    "reread",
    "map",
    "mkdir",
    "rmdir",
    "unlink",
    "removeTree",
    "list",
    "put",
    "delete",
  ),
  path: fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 3 }),
  sizeBytes: fc.constantFrom(0, 1, 15, 16, 17, 100),
  isCommon: fc.boolean(),
});

import * as fc from "fast-check";

export type Path = readonly string[];
export interface Operation {
  readonly do: "write" | "read" | "mkdir" | "rmdir" | "unlink" | "list" | "put" | "delete";
  readonly path: Path;
  readonly sizeBytes: number;
}
export type Outcome = string;

/** The one definition of right: all keys and all local directories; everything else is derived. */
export class ReferenceModel {
  readonly objects = new Map<string, string>();
  readonly localDirs = new Set<string>();

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
        if (kind !== "file") return kind === "directory" ? "EISDIR" : "absent";
        return this.objects.get(key) ?? "";
      case "write":
        if (kind === "directory") return "EISDIR";
        this.objects.set(key, content.slice(0, sizeBytes));
        for (let n = 1; n < path.length; n++) this.localDirs.delete(path.slice(0, n).join("/"));
        return "ok";
      case "mkdir":
        if (kind !== undefined) return "conflict";
        this.localDirs.add(key);
        return "ok";
      case "rmdir":
        return this.#rmdir(key, kind);
      case "unlink":
        if (kind !== "file") return kind === "directory" ? "EISDIR" : "absent";
        this.objects.delete(key);
        return "ok";
      default:
        return verb satisfies never;
    }
  }

  #rmdir(key: string, kind: string | undefined): Outcome {
    if (kind !== "directory") return kind === "file" ? "ENOTDIR" : "absent";
    if (!this.localDirs.has(key)) return "EPERM";
    const hasChild = [...this.localDirs].some(
      (dir) => dir.slice(0, dir.lastIndexOf("/")) === key && dir.includes("/"),
    );
    if (hasChild) return "ENOTEMPTY";
    this.localDirs.delete(key);
    return "ok";
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
    if ([...this.objects.keys()].some((other) => other.startsWith(`${key}/`))) {
      this.localDirs.delete(key);
      return "directory";
    }
    if (this.objects.has(key)) return "file";
    return this.localDirs.has(key) ? "directory" : undefined;
  }

  #list(key: string): string {
    const prefix = key === "" ? "" : `${key}/`;
    const below = (paths: Iterable<string>) =>
      [...paths].filter((path) => path.startsWith(prefix)).map((path) => path.slice(prefix.length));
    const names = new Set(below(this.objects.keys()).map((rest) => rest.split("/")[0] ?? ""));
    for (const rest of below(this.localDirs)) {
      if (rest.includes("/")) continue;
      names.add(rest);
      this.#visit(prefix + rest); // a listing looks at each of its names
    }
    return [...names].toSorted((left, right) => (left < right ? -1 : 1)).join(",");
  }
}

// A small alphabet on purpose: a file and a directory of one name are the interesting part.
export const anyOperation: fc.Arbitrary<Operation> = fc.record({
  do: fc.constantFrom(
    "write",
    "write",
    "read",
    "mkdir",
    "rmdir",
    "unlink",
    "list",
    "put",
    "delete",
  ),
  path: fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 3 }),
  sizeBytes: fc.constantFrom(0, 1, 15, 16, 17, 100),
});

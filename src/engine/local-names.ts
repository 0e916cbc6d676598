import { Failure } from "../base/failure.ts";
import type { Deletions } from "./deletions.ts";
import type { EngineConfig } from "./engine-config.ts";
import type { Inode } from "./inode.ts";
import type { InodeTable } from "./inode-table.ts";
import type { Namespace } from "./namespace.ts";

export interface LocalNamesDeps {
  readonly table: InodeTable;
  readonly names: Namespace;
  readonly deletions: Deletions;
  readonly config: EngineConfig;
}

/** Files and directories that are made here, and unknown to S3 until a file is uploaded. */
export class LocalNames {
  readonly #deps: LocalNamesDeps;

  constructor(deps: LocalNamesDeps) {
    this.#deps = deps;
  }

  /** `knownAbsent`: S3 was asked for the name just now, and had nothing. */
  async make(
    parent: number,
    name: string,
    kind: "file" | "directory",
    knownAbsent = false,
  ): Promise<Inode> {
    const { table, names, deletions, config } = this.#deps;
    const path = names.resolve(parent, name);
    do {
      // A deletion may also begin while S3 is asked: its unlink has looked the name up before.
      while (deletions.isUnderWay(path)) await deletions.ended(path);
      const free = knownAbsent && table.current(path) === undefined;
      if (!free && (await names.lookup(path)) !== undefined) {
        throw new Failure("conflict", `${path} exists`);
      }
    } while (deletions.isUnderWay(path));
    if (table.current(path) !== undefined) throw new Failure("conflict", `${path} exists`);
    const inode = table.addLocal(path, kind);
    inode.object = undefined;
    inode.validUntilMs = performance.now() + config.metadataTtlMs;
    return inode;
  }

  /** The kernel never learned of a name made just now: its reference goes, and the name with it. */
  unmake(nodeid: number): void {
    const { table } = this.#deps;
    const inode = table.find(nodeid);
    table.forget(nodeid, 1);
    if (inode === undefined || !inode.local || inode.lookups > 0) return;
    if (inode.upload !== undefined || table.hasLocalBelow(inode.path)) return;
    table.unbind(inode);
  }
}

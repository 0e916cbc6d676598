import type { ObjectInfo } from "../s3/object-store.ts";
import type { Upload } from "./upload.ts";

/**
 * What a nodeid stands for. The kernel's page cache is per nodeid, so a file's nodeid is bound to
 * one version of one object: another ETag is another inode.
 */
export class Inode {
  readonly nodeid: number;
  readonly path: string;
  readonly kind: "file" | "directory";
  /** How many answers to the kernel named this inode, less those it has forgotten. */
  lookups = 0;
  #readers = 0;
  #unread: PromiseWithResolvers<void> | undefined;
  /** Undefined for directories and for files that are not in S3 yet. */
  object: ObjectInfo | undefined;
  /** Being written, up to the end of the upload. */
  upload: Upload | undefined;
  /** Exists only here: a directory without objects, a file before its upload. */
  local = false;
  /** Known to the journal: from the first answer that named it. */
  noted = false;
  validUntilMs = 0;

  constructor(nodeid: number, path: string, kind: "file" | "directory") {
    this.nodeid = nodeid;
    this.path = path;
    this.kind = kind;
  }

  /** Handles that are open for reading. */
  get readers(): number {
    return this.#readers;
  }

  addReader(): void {
    this.#readers += 1;
  }

  removeReader(): void {
    this.#readers -= 1;
    if (this.#readers > 0) return;
    this.#unread?.resolve();
    this.#unread = undefined;
  }

  /** Resolves when the last reader has closed it. */
  get unread(): Promise<void> {
    if (this.#readers === 0) return Promise.resolve();
    this.#unread ??= Promise.withResolvers();
    return this.#unread.promise;
  }

  get sizeBytes(): number {
    return this.upload?.sizeBytes ?? this.object?.sizeBytes ?? 0;
  }

  /** Nobody would lose anything if the kernel forgot it. */
  get isOnlyRemembered(): boolean {
    return this.lookups > 0 && this.readers === 0 && !this.local && this.upload === undefined;
  }

  /** Still needed by somebody: the kernel, an open file, or a name that is nowhere else. */
  get inUse(): boolean {
    return this.lookups > 0 || this.readers > 0 || this.local || this.upload !== undefined;
  }
}

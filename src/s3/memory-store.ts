import { createHash } from "node:crypto";
import { Failure } from "../base/failure.ts";
import type {
  ListedObject,
  ListPage,
  ListQuery,
  ObjectInfo,
  ObjectStore,
  RangeRead,
  RunningSum,
  UploadedPart,
} from "./object-store.ts";
import { checksumOf, CHECKSUM_KINDS } from "./upload-checksum.ts";

interface Stored extends ObjectInfo {
  readonly nonce: string;
  readonly body: Buffer;
}

/** A bucket in memory, for tests: the semantics of S3 and nothing else. */
export class MemoryStore implements ObjectStore {
  readonly #objects = new Map<string, Stored>();
  readonly #uploads = new Map<string, Map<number, Buffer>>();
  #uploadsBegun = 0;

  get keys(): string[] {
    return [...this.#objects.keys()].toSorted((left, right) => (left < right ? -1 : 1));
  }

  get unfinishedUploads(): number {
    return this.#uploads.size;
  }

  earliestNowMs(): number {
    return Date.now();
  }

  /** Ends all uploads as another client may. */
  endUploads(): void {
    this.#uploads.clear();
  }

  body(key: string): Buffer | undefined {
    return this.#objects.get(key)?.body;
  }

  async head(key: string): Promise<ObjectInfo | undefined> {
    return this.#objects.get(key);
  }

  async list(query: ListQuery): Promise<ListPage> {
    const objects: ListedObject[] = [];
    const prefixes = new Set<string>();
    const after = query.continuationToken ?? query.startAfter ?? "";
    for (const key of this.keys) {
      const object = this.#objects.get(key);
      if (object === undefined || !key.startsWith(query.prefix) || key <= after) continue;
      if (objects.length + prefixes.size === query.keysMax) {
        return { objects, prefixes: [...prefixes], nextToken: lastOf(objects, prefixes) };
      }
      const cut = query.delimiter === "" ? -1 : key.indexOf("/", query.prefix.length);
      if (cut === -1) objects.push({ ...object, key });
      else if (key.slice(0, cut + 1) > after) prefixes.add(key.slice(0, cut + 1));
    }
    return { objects, prefixes: [...prefixes], nextToken: undefined };
  }

  async read({ key, etag, offsetBytes, into, onFilled }: RangeRead): Promise<void> {
    const object = this.#objects.get(key);
    if (object === undefined) throw new Failure("absent", key);
    if (object.etag !== etag) throw new Failure("stale", key);
    object.body.copy(into, 0, offsetBytes, offsetBytes + into.length);
    onFilled(into.length);
  }

  async put(
    key: string,
    body: Uint8Array,
    nonce = "",
    _signal?: AbortSignal,
    sum?: string,
  ): Promise<{ etag: string }> {
    if (sum !== undefined) await checkSum(body, sum);
    return this.#store(key, body, nonce, `"${digestOf(body)}"`);
  }

  #store(key: string, body: Uint8Array, nonce: string, etag: string): { etag: string } {
    const sizeBytes = body.length;
    const stored = { etag, sizeBytes, mtimeMs: 0, archived: false, body: Buffer.from(body), nonce };
    this.#objects.set(key, stored);
    return { etag };
  }

  async findOwn(key: string, nonce: string): Promise<string | undefined> {
    const object = this.#objects.get(key);
    return object?.nonce === nonce ? object.etag : undefined;
  }

  async abortStrays(key: string): Promise<void> {
    for (const [uploadId, parts] of this.#uploads) {
      if (uploadId.startsWith(`${key}#`) && parts.size === 0) this.#uploads.delete(uploadId);
    }
  }

  async createUpload(key: string): Promise<string> {
    const uploadId = `${key}#${this.#uploadsBegun++}`;
    this.#uploads.set(uploadId, new Map());
    return uploadId;
  }

  startSum(): Promise<RunningSum> {
    return CHECKSUM_KINDS.crc32.start();
  }

  async uploadPart(
    _key: string,
    uploadId: string,
    partNumber: number,
    body: Uint8Array,
    _signal?: AbortSignal,
    sum?: string,
  ): Promise<UploadedPart> {
    const parts = this.#uploads.get(uploadId);
    if (parts === undefined) throw new Failure("absent", uploadId);
    if (sum !== undefined) await checkSum(body, sum);
    parts.set(partNumber, Buffer.from(body));
    return { partNumber, etag: `"part-${partNumber}"` };
  }

  async completeUpload(
    key: string,
    uploadId: string,
    parts: readonly UploadedPart[],
    nonce: string,
  ): Promise<{ etag: string }> {
    const sent = this.#uploads.get(uploadId);
    const done = sent === undefined ? await this.findOwn(key, nonce) : undefined;
    if (done !== undefined) return { etag: done };
    const bodies = parts.map(({ partNumber }) => sent?.get(partNumber));
    if (!bodies.every((body) => body !== undefined)) throw new Failure("absent", uploadId);
    this.#uploads.delete(uploadId);
    const body = Buffer.concat(bodies);
    return this.#store(key, body, nonce, `"${digestOf(body)}-${parts.length}"`);
  }

  async abortUpload(_key: string, uploadId: string): Promise<void> {
    if (!this.#uploads.delete(uploadId)) throw new Failure("absent", uploadId);
  }

  async delete(key: string): Promise<void> {
    this.#objects.delete(key);
  }
}

/** S3 derives an ETag from the content alone: equal contents have equal ETags. */
function digestOf(body: Uint8Array): string {
  return createHash("md5").update(body).digest("hex");
}

async function checkSum(body: Uint8Array, sum: string): Promise<void> {
  if (sum === (await checksumOf(CHECKSUM_KINDS.crc32, body))) return;
  throw new Failure("remote", "the bytes are not those of the sum");
}

/** Everything up to here was listed; a common prefix stands for all keys below it. */
function lastOf(objects: readonly ListedObject[], prefixes: ReadonlySet<string>): string {
  const lastPrefix = [...prefixes].at(-1);
  const lastKey = objects.at(-1)?.key ?? "";
  if (lastPrefix === undefined || lastPrefix < lastKey) return lastKey;
  return `${lastPrefix}\u{10ffff}`;
}

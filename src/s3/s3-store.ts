import { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import { BodyRests } from "./body-rests.ts";
import { ARCHIVES, readListPage } from "./list-page.ts";
import type {
  ListPage,
  ListQuery,
  ObjectInfo,
  ObjectStore,
  RangeRead,
  RunningSum,
  UploadedPart,
} from "./object-store.ts";
import type { HttpResponse } from "./response-reader.ts";
import { AwayFailure, PermanentFailure, retry } from "./retry.ts";
import type { RetryPolicy } from "./retry.ts";
import type { S3Request, S3Transport } from "./s3-transport.ts";
import { checksumOf } from "./upload-checksum.ts";
import type { ChecksumKind } from "./upload-checksum.ts";
import { hasParts, readUploads } from "./upload-list.ts";
import { escapeXml, readXml } from "./xml.ts";

/** Between our clock and the server's, when an upload of ours is looked for by its age. */
const CLOCK_SLACK_MS = 5_000;
const PROBE_POLICY: RetryPolicy = { attemptsMax: 3, windowMs: 3_000 };

/** Marks an upload as ours, so that a lost answer to its completion can be settled. */
const NONCE_HEADER = "x-amz-meta-s3csi-upload";

export interface UploadOptions {
  /** Sent with every new object: storage class, encryption, content type. */
  readonly objectHeaders: Readonly<Record<string, string>>;
  /** What S3 verifies bodies by before it accepts them; undefined: nothing of ours. */
  readonly checksum: ChecksumKind | undefined;
}

/** The bucket behind HTTP, with retries: an ObjectStore that may take its time, not give up. */
export class S3Store implements ObjectStore {
  readonly #transport: S3Transport;
  readonly #policy: RetryPolicy;
  readonly #uploads: UploadOptions;
  readonly #rests = new BodyRests();

  constructor(transport: S3Transport, policy: RetryPolicy, uploads: UploadOptions) {
    this.#transport = transport;
    this.#policy = policy;
    this.#uploads = uploads;
  }

  /** Asks for what a mount needs first; fails within seconds and says why it won't work. */
  async probe(prefix: string, timeoutMs: number): Promise<void> {
    const signal = AbortSignal.timeout(timeoutMs);
    const request = listRequest({
      prefix,
      delimiter: "",
      keysMax: 1,
      continuationToken: undefined,
    });
    const response = await retry(PROBE_POLICY, signal, () => this.#transport.send(request, signal));
    readListPage(response.body.toString("utf8"));
  }

  async head(key: string, signal: AbortSignal): Promise<ObjectInfo | undefined> {
    try {
      const { headers } = await this.#send({ method: "HEAD", key }, signal);
      return {
        etag: headers.get("etag") ?? "",
        sizeBytes: Number(headers.get("content-length") ?? 0),
        mtimeMs: Date.parse(headers.get("last-modified") ?? "") || 0,
        archived:
          ARCHIVES.has(headers.get("x-amz-storage-class") ?? "") &&
          !(headers.get("x-amz-restore") ?? "").includes('ongoing-request="false"'),
      };
    } catch (error) {
      if (error instanceof Failure && error.kind === "absent") return undefined;
      throw error;
    }
  }

  async list(query: ListQuery, signal: AbortSignal): Promise<ListPage> {
    const response = await this.#send(listRequest(query), signal);
    return readListPage(response.body.toString("utf8"));
  }

  /** A connection that breaks half-way costs only the other half. */
  async read({ key, etag, offsetBytes, into, onFilled, goesOn }: RangeRead, signal: AbortSignal) {
    let filledBytes = 0;
    const endBytes = offsetBytes + into.length;
    const restBytes = Math.max(0, (goesOn?.endBytes ?? 0) - endBytes);
    await retry(this.#policy, signal, async () => {
      const startedAt = filledBytes;
      const fromBytes = offsetBytes + startedAt;
      const target = {
        into: into.subarray(startedAt),
        restBytes,
        onFilled: (count: number) => {
          filledBytes = startedAt + count;
          onFilled(filledBytes);
        },
      };
      const range = `bytes=${fromBytes}-${endBytes + restBytes - 1}`;
      const pin = etag === "" ? {} : { "if-match": etag };
      const request = { method: "GET", key, headers: { range, ...pin }, target } as const;
      const open = goesOn && this.#rests.take(goesOn.until, fromBytes);
      const rest = open
        ? await open.readOn(target, signal)
        : (await this.#transport.send(request, signal)).rest;
      if (filledBytes !== into.length) throw new Failure("remote", `GET ${key}: cut short`);
      if (goesOn && rest) this.#rests.keep(goesOn.until, endBytes, rest);
    });
  }

  /** After a lost answer it is not sent again over what others may have put there meanwhile. */
  async put(
    key: string,
    body: Uint8Array,
    nonce: string,
    signal: AbortSignal,
    sum?: string,
  ): Promise<{ etag: string }> {
    const { checksum, objectHeaders } = this.#uploads;
    const verified = checksum && { [checksum.header]: sum ?? (await checksumOf(checksum, body)) };
    const headers = { ...objectHeaders, ...verified, [NONCE_HEADER]: nonce };
    const request = { method: "PUT", key, body, headers } as const;
    let lost = false;
    return retry(this.#policy, signal, async () => {
      const done = lost ? await this.#ownObject(key, nonce, signal) : undefined;
      if (done !== undefined) return { etag: done };
      try {
        return { etag: etagOf(await this.#transport.send(request, signal)) };
      } catch (error) {
        lost = error instanceof AwayFailure;
        throw error;
      }
    });
  }

  async findOwn(key: string, nonce: string, signal: AbortSignal): Promise<string | undefined> {
    return retry(this.#policy, signal, () => this.#ownObject(key, nonce, signal));
  }

  async createUpload(key: string, nonce: string, signal: AbortSignal): Promise<string> {
    const { checksum, objectHeaders } = this.#uploads;
    const verified = checksum && { "x-amz-checksum-algorithm": checksum.algorithm };
    const headers = { ...objectHeaders, ...verified, [NONCE_HEADER]: nonce };
    const request = { method: "POST", key, query: [["uploads", ""]], headers } as const;
    const sinceMs = Date.now();
    let attempts = 0;
    const response = await retry(this.#policy, signal, async () => {
      if (attempts++ > 0) await this.#abortStrays(key, sinceMs, signal);
      return this.#transport.send(request, signal);
    });
    const uploadId = readXml(response.body.toString("utf8")).textOf("UploadId");
    if (uploadId === undefined) throw new PermanentFailure(`upload of ${key}: no UploadId`);
    return uploadId;
  }

  async abortStrays(key: string, sinceMs: number, signal: AbortSignal): Promise<void> {
    await retry(this.#policy, signal, () => this.#abortStrays(key, sinceMs, signal));
  }

  async startSum(): Promise<RunningSum | undefined> {
    return this.#uploads.checksum?.start();
  }

  async uploadPart(
    key: string,
    uploadId: string,
    partNumber: number,
    body: Uint8Array,
    signal: AbortSignal,
    sum?: string,
  ): Promise<UploadedPart> {
    const query = [
      ["partNumber", String(partNumber)],
      ["uploadId", uploadId],
    ] as const;
    const kind = this.#uploads.checksum;
    if (kind === undefined) {
      const response = await this.#send({ method: "PUT", key, query, body }, signal);
      return { partNumber, etag: etagOf(response) };
    }
    const checksum = sum ?? (await checksumOf(kind, body));
    const headers = { [kind.header]: checksum };
    const response = await this.#send({ method: "PUT", key, query, body, headers }, signal);
    return { partNumber, etag: etagOf(response), checksum };
  }

  /** An upload that has gone: our first answer was lost, or somebody else ended it. */
  async completeUpload(
    key: string,
    uploadId: string,
    parts: readonly UploadedPart[],
    nonce: string,
    signal: AbortSignal,
  ): Promise<{ etag: string }> {
    const body = completeDocument(parts, this.#uploads.checksum?.element);
    const request = { method: "POST", key, query: [["uploadId", uploadId]], body } as const;
    return retry(this.#policy, signal, async () => {
      try {
        return readCompletion(key, await this.#transport.send(request, signal));
      } catch (error) {
        const gone = error instanceof Failure && error.kind === "absent";
        const ours = gone ? await this.#ownObject(key, nonce, signal) : undefined;
        if (ours === undefined) throw error;
        return { etag: ours };
      }
    });
  }

  async abortUpload(key: string, uploadId: string, signal: AbortSignal): Promise<void> {
    await this.#send({ method: "DELETE", key, query: [["uploadId", uploadId]] }, signal);
  }

  async delete(key: string, signal: AbortSignal): Promise<void> {
    await this.#send({ method: "DELETE", key }, signal);
  }

  close(): void {
    this.#rests.close();
    this.#transport.close();
  }

  async #ownObject(key: string, nonce: string, signal: AbortSignal): Promise<string | undefined> {
    try {
      const { headers } = await this.#transport.send({ method: "HEAD", key }, signal);
      return headers.get(NONCE_HEADER) === nonce ? (headers.get("etag") ?? "") : undefined;
    } catch (error) {
      if (error instanceof Failure && error.kind === "absent") return undefined;
      throw error;
    }
  }

  /** One with parts has an owner who knows its id: that is never ours, nor is an older one. */
  async #abortStrays(key: string, sinceMs: number, signal: AbortSignal): Promise<void> {
    const query = [
      ["uploads", ""],
      ["prefix", key],
      ["encoding-type", "url"],
    ] as const;
    const response = await this.#transport.send({ method: "GET", key: "", query }, signal);
    for (const upload of readUploads(response.body.toString("utf8"))) {
      if (upload.key !== key || upload.initiatedMs < sinceMs - CLOCK_SLACK_MS) continue;
      await this.#abortWithoutParts(key, upload.uploadId, signal).catch((error: unknown) => {
        const gone = error instanceof Failure && error.kind === "absent";
        if (!gone) throw error; // else its owner has ended it meanwhile
      });
    }
  }

  async #abortWithoutParts(key: string, uploadId: string, signal: AbortSignal): Promise<void> {
    const query = [["uploadId", uploadId]] as const;
    const parts = await this.#transport.send({ method: "GET", key, query }, signal);
    if (hasParts(parts.body.toString("utf8"))) return;
    await this.#transport.send({ method: "DELETE", key, query }, signal);
  }

  #send(request: S3Request, signal: AbortSignal): Promise<HttpResponse> {
    return retry(this.#policy, signal, () => this.#transport.send(request, signal));
  }
}

function listRequest(query: ListQuery): S3Request {
  const parameters: [string, string][] = [
    ["list-type", "2"],
    ["prefix", query.prefix],
    ["max-keys", String(query.keysMax)],
    ["encoding-type", "url"],
  ];
  if (query.delimiter !== "") parameters.push(["delimiter", query.delimiter]);
  const token = query.continuationToken;
  if (token !== undefined) parameters.push(["continuation-token", token]);
  else if (query.startAfter !== undefined) parameters.push(["start-after", query.startAfter]);
  return { method: "GET", key: "", query: parameters };
}

/** S3 may answer 200 and say in the document that it failed. */
function readCompletion(key: string, response: HttpResponse): { etag: string } {
  const root = readXml(response.body.toString("utf8"));
  if (root.name === "CompleteMultipartUploadResult") return { etag: root.textOf("ETag") ?? "" };
  throw new Failure("remote", `completing ${key}: ${root.textOf("Code") ?? root.name}`);
}

function completeDocument(parts: readonly UploadedPart[], sumName: string | undefined): Buffer {
  const elements = parts.map(({ partNumber, etag, checksum }) => {
    const sum = checksum && sumName ? `<${sumName}>${checksum}</${sumName}>` : "";
    const tag = `<ETag>${escapeXml(etag)}</ETag>`;
    return `<Part><PartNumber>${partNumber}</PartNumber>${tag}${sum}</Part>`;
  });
  const text = `<CompleteMultipartUpload>${elements.join("")}</CompleteMultipartUpload>`;
  return Buffer.from(text, "utf8");
}

function etagOf(response: HttpResponse): string {
  return response.headers.get("etag") ?? "";
}

import { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { BodyRests } from "./body-rests.ts";
import { OWNER_HEADER } from "./bucket-owner.ts";
import { completeDocument, readCompletion } from "./completion.ts";
import { etagOf } from "./etag.ts";
import type { HttpHead } from "./http-head.ts";
import { ARCHIVES, readListPage } from "./list-page.ts";
import { readModificationTime } from "./modification-time.ts";
import type {
  ListPage,
  ListQuery,
  ObjectInfo,
  ObjectStore,
  RangeRead,
  RunningSum,
  UploadedPart,
} from "./object-store.ts";
import { objectSizeOf } from "./object-size.ts";
import { refusalOf } from "./range-answer.ts";
import type { HttpResponse } from "./response-reader.ts";
import { AwayFailure, PermanentFailure, retry, UnexplainedFailure } from "./retry.ts";
import type { RetryPolicy } from "./retry.ts";
import { retryUnlessDone } from "./retry-unless-done.ts";
import type { S3Request, S3Transport } from "./s3-transport.ts";
import type { ChecksumKind } from "./upload-checksum.ts";
import { UnprovenObjects } from "./unproven-objects.ts";
import { UploadIntegrity } from "./upload-integrity.ts";
import { hasParts, readUploads } from "./upload-list.ts";
import { readXml } from "./xml.ts";

/** Between the clocks of two servers of S3: one tells its date, another one begins an upload. */
const CLOCK_SLACK_MS = 5_000;
const PROBE_POLICY: RetryPolicy = { attemptsMax: 3, windowMs: 3_000 };

/** Marks an upload as ours, so that a lost answer to its completion can be settled. */
const NONCE_HEADER = "x-amz-meta-s3csi-upload";

export interface UploadOptions {
  /** Sent with every new object: storage class, encryption, content type. */
  readonly objectHeaders: Readonly<Record<string, string>>;
  /** What S3 verifies bodies by before it accepts them; undefined: nothing of ours. */
  readonly checksum: ChecksumKind | undefined;
  /** The content type of a new object by its key. Undefined: left to the server. */
  readonly contentTypeOf?: ((key: string) => string | undefined) | undefined;
  readonly log?: Log | undefined;
}

/** When an upload began that nobody has the id of, by the clock of S3. */
interface StrayTime {
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** The bucket behind HTTP, with retries: an ObjectStore that may take its time, not give up. */
export class S3Store implements ObjectStore {
  readonly #transport: S3Transport;
  readonly #policy: RetryPolicy;
  readonly #uploads: UploadOptions;
  readonly #integrity: UploadIntegrity;
  readonly #rests = new BodyRests();

  constructor(transport: S3Transport, policy: RetryPolicy, uploads: UploadOptions) {
    this.#transport = transport;
    this.#policy = policy;
    this.#uploads = uploads;
    this.#integrity = new UploadIntegrity(uploads.checksum, uploads.log);
  }

  earliestNowMs(): number {
    return this.#transport.earliestNowMs();
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

  /** Whether S3 refuses a request that expects the bucket to belong to another account. */
  async checksOwner(prefix: string, expected: string, timeoutMs: number): Promise<boolean> {
    const signal = AbortSignal.timeout(timeoutMs);
    const other = expected === "000000000000" ? "111111111111" : "000000000000";
    const headers = { [OWNER_HEADER]: other };
    const query = { prefix, delimiter: "", keysMax: 1, continuationToken: undefined } as const;
    const request = { ...listRequest(query), headers };
    try {
      await retry(PROBE_POLICY, signal, () => this.#transport.send(request, signal));
      return false;
    } catch (error) {
      if (error instanceof Failure && error.kind === "denied") return true;
      throw error;
    }
  }

  async head(key: string, signal: AbortSignal): Promise<ObjectInfo | undefined> {
    try {
      const { headers } = await this.#send({ method: "HEAD", key }, signal);
      const etag = etagOf(headers.get("etag"));
      if (etag === "") throw new PermanentFailure(`HEAD ${key}: the object has no ETag`);
      const sizeBytes = objectSizeOf(headers.get("content-length"));
      if (sizeBytes === undefined) {
        throw new PermanentFailure(`HEAD ${key}: the answer has no valid Content-Length`);
      }
      return {
        etag,
        sizeBytes,
        mtimeMs: readModificationTime(headers.get("last-modified") ?? ""),
        archived:
          ARCHIVES.has(headers.get("x-amz-storage-class") ?? "") &&
          !(headers.get("x-amz-restore") ?? "").includes('ongoing-request="false"'),
      };
    } catch (error) {
      if (error instanceof Failure && error.kind === "absent") return undefined;
      if (error instanceof UnexplainedFailure) await this.#explain(key, signal);
      throw error;
    }
  }

  async list(query: ListQuery, signal: AbortSignal): Promise<ListPage> {
    const response = await this.#send(listRequest(query), signal);
    return readListPage(response.body.toString("utf8"));
  }

  /** A connection that breaks half-way costs only the other half. */
  async read(range: RangeRead, signal: AbortSignal): Promise<void> {
    const { key, etag, objectBytes, offsetBytes, into, onFilled, goesOn } = range;
    if (etag === "") throw new PermanentFailure(`GET ${key}: no ETag to ask for`);
    let filledBytes = 0;
    const endBytes = offsetBytes + into.length;
    const restBytes = Math.max(0, (goesOn?.endBytes ?? 0) - endBytes);
    await retry(this.#policy, signal, async (budget) => {
      const startedAt = filledBytes;
      const fromBytes = offsetBytes + startedAt;
      const asked = { key, etag, objectBytes, fromBytes, endBytes: endBytes + restBytes };
      let refusal: Failure | undefined;
      const target = {
        into: into.subarray(startedAt),
        restBytes,
        accepts: (head: HttpHead) => {
          refusal = refusalOf(head, asked);
          return refusal === undefined;
        },
        onFilled: (count: number) => {
          filledBytes = startedAt + count;
          budget.renew();
          onFilled(filledBytes);
        },
      };
      const headers = { range: `bytes=${fromBytes}-${asked.endBytes - 1}`, "if-match": etag };
      const request = { method: "GET", key, headers, target } as const;
      const open = goesOn && this.#rests.take(goesOn.until, fromBytes);
      const answered = open
        ? open.readOn(target, signal)
        : this.#transport.send(request, signal).then((response) => response.rest);
      const rest = await answered.catch((error: unknown) => {
        // A connection may break behind the last byte, where no range is left to ask for.
        const isWhole = filledBytes > 0 && filledBytes === into.length && !signal.aborted;
        if (!isWhole || !(error instanceof AwayFailure)) throw error;
        return undefined;
      });
      if (refusal !== undefined) throw refusal;
      if (filledBytes !== into.length) throw new Failure("remote", `GET ${key}: cut short`);
      if (goesOn && rest) this.#rests.keep(goesOn.until, endBytes, rest);
    });
  }

  /**
   * After an answer that was lost, the nonce tells whether the object is there already. An object
   * that S3 has stored unverified must be replaced, but not what others have put in its place.
   */
  async put(
    key: string,
    body: Uint8Array,
    nonce: string,
    signal: AbortSignal,
    sum?: string,
  ): Promise<{ etag: string }> {
    const proof = await this.#integrity.proofOf(body, sum);
    const ofObject = { ...this.#headersOfNew(key), [NONCE_HEADER]: nonce };
    const unproven = new UnprovenObjects(key);
    const stored = retryUnlessDone(this.#policy, signal, {
      send: async () => {
        const headers = { ...ofObject, ...(await proof.headers()) };
        const request = { method: "PUT", key, body, headers } as const;
        const response = await this.#transport.send(request, signal);
        const etag = etagOf(response.headers.get("etag"));
        unproven.noteFailure(etag, () => proof.check(response.headers));
        return { etag };
      },
      settle: async () => {
        const headers = await this.#headersOf(key, signal);
        if (headers === undefined) return undefined;
        const etag = etagOf(headers.get("etag"));
        const isOurs = headers.get(NONCE_HEADER) === nonce;
        return unproven.needsRepeat(etag, isOurs) ? undefined : { etag };
      },
    });
    return stored.catch((error: unknown) => {
      if (unproven.isLeft) {
        this.#uploads.log?.warn({ key, err: error }, "unverified object could not be replaced");
      }
      throw error;
    });
  }

  async findOwn(key: string, nonce: string, signal: AbortSignal): Promise<string | undefined> {
    return retry(this.#policy, signal, () => this.#ownObject(key, nonce, signal));
  }

  async createUpload(key: string, nonce: string, signal: AbortSignal): Promise<string> {
    const { checksum } = this.#uploads;
    const verified = checksum && { "x-amz-checksum-algorithm": checksum.algorithm };
    const headers = { ...this.#headersOfNew(key), ...verified, [NONCE_HEADER]: nonce };
    const request = { method: "POST", key, query: [["uploads", ""]], headers } as const;
    const time = { sinceMs: this.earliestNowMs(), untilMs: Infinity };
    let attempts = 0;
    const response = await retry(this.#policy, signal, async () => {
      if (attempts++ > 0) await this.#abortStrays(key, time, signal);
      return this.#transport.send(request, signal);
    });
    const uploadId = readXml(response.body.toString("utf8")).textOf("UploadId");
    if (uploadId === undefined) throw new PermanentFailure(`upload of ${key}: no UploadId`);
    return uploadId;
  }

  async abortStrays(key: string, sinceMs: number, signal: AbortSignal, untilMs = Infinity) {
    const time = { sinceMs, untilMs: this.#transport.signs ? untilMs : Infinity };
    await retry(this.#policy, signal, () => this.#abortStrays(key, time, signal));
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
    const proof = await this.#integrity.proofOf(body, sum);
    const { checksum } = proof;
    return retry(this.#policy, signal, async () => {
      const headers = await proof.headers();
      const request = { method: "PUT", key, query, body, headers } as const;
      const response = await this.#transport.send(request, signal);
      proof.check(response.headers);
      const etag = response.headers.get("etag") ?? "";
      return { partNumber, etag, ...(checksum === undefined ? {} : { checksum }) };
    });
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

  /** After an answer that was lost, only the version that was meant is deleted again. */
  async delete(key: string, signal: AbortSignal, etag?: string): Promise<void> {
    await retryUnlessDone(this.#policy, signal, {
      send: async () => {
        await this.#transport.send({ method: "DELETE", key }, signal);
        return "done";
      },
      settle: async () => {
        if (etag === undefined) return undefined;
        const headers = await this.#headersOf(key, signal);
        const isThere = headers !== undefined && etagOf(headers.get("etag")) === etagOf(etag);
        return isThere ? undefined : "done";
      },
    });
  }

  close(): void {
    this.#rests.close();
    this.#transport.close();
  }

  async #ownObject(key: string, nonce: string, signal: AbortSignal): Promise<string | undefined> {
    const headers = await this.#headersOf(key, signal);
    return headers?.get(NONCE_HEADER) === nonce ? etagOf(headers.get("etag")) : undefined;
  }

  /** Undefined: there is no such object. */
  async #headersOf(key: string, signal: AbortSignal): Promise<HttpResponse["headers"] | undefined> {
    try {
      return (await this.#transport.send({ method: "HEAD", key }, signal)).headers;
    } catch (error) {
      if (error instanceof Failure && error.kind === "absent") return undefined;
      throw error;
    }
  }

  /** Fails with the reason for which S3 has refused a HEAD of this key: a GET has a document. */
  async #explain(key: string, signal: AbortSignal): Promise<void> {
    const headers = { range: "bytes=0-0" };
    const target = { into: Buffer.alloc(0), onFilled: () => undefined, accepts: () => false };
    await this.#send({ method: "GET", key, headers, target }, signal);
  }

  #headersOfNew(key: string): Record<string, string> {
    const { objectHeaders, contentTypeOf } = this.#uploads;
    const type = contentTypeOf?.(key);
    return { ...objectHeaders, ...(type === undefined ? {} : { "content-type": type }) };
  }

  /** Credentials that may not look for uploads must still be able to begin the next one. */
  async #abortStrays(key: string, time: StrayTime, signal: AbortSignal): Promise<void> {
    try {
      await this.#abortUnknown(key, time, signal);
    } catch (error) {
      const isDenied = error instanceof Failure && error.kind === "denied";
      if (!isDenied) throw error;
    }
  }

  /** An upload with parts has an owner that knows its id; one of another time is not ours. */
  async #abortUnknown(key: string, time: StrayTime, signal: AbortSignal): Promise<void> {
    const fromMs = time.sinceMs - CLOCK_SLACK_MS;
    const toMs = time.untilMs + CLOCK_SLACK_MS;
    const query = [
      ["uploads", ""],
      ["prefix", key],
      ["encoding-type", "url"],
    ] as const;
    const response = await this.#transport.send({ method: "GET", key: "", query }, signal);
    for (const upload of readUploads(response.body.toString("utf8"))) {
      const { initiatedMs } = upload;
      if (!upload.isOf(key) || initiatedMs < fromMs || initiatedMs > toMs) continue;
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

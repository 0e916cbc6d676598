import {
  AbortMultipartUploadCommand,
  ListMultipartUploadsCommand,
  ListObjectVersionsCommand,
  ListObjectsV2Command,
} from "@aws-sdk/client-s3";
import type { S3Client, _Error as KeyError } from "@aws-sdk/client-s3";
import { Failure, RetryLaterFailure } from "../base/failure.ts";
import { kindOf } from "../s3/s3-error.ts";
import type { Turnstile } from "../s3/turnstile.ts";
import { NoSuchBucketFailure } from "./buckets.ts";
import type {
  AbortRequest,
  BucketContents,
  EmptyRequest,
  EmptyingProgress,
  ListMarker,
  Refusal,
  Unavailable,
} from "./buckets.ts";
import { eachOf } from "./each-of.ts";
import { keysBelow, markerOf } from "./listed-keys.ts";
import { ObjectDeleter } from "./object-deleter.ts";
import type { Item } from "./object-deleter.ts";
import { GONE, answerOf, failureFor, whyUnavailable } from "./s3-answers.ts";

interface Page {
  readonly items: readonly Item[];
  /** Where the next page begins; undefined for the last one. */
  readonly next: ListMarker | undefined;
}

const ABORTS_AT_ONCE = 16;
/** Keys as they are, whatever characters they have. Some servers ignore it. */
const ENCODED = { EncodingType: "url" } as const;
/** Errors of single keys that another pass may not meet. */
const TRANSIENT: ReadonlySet<string> = new Set([
  "InternalError",
  "OperationAborted",
  "RequestTimeout",
  "ServiceUnavailable",
  "SlowDown",
]);
/** AWS and versitygw answer AccessDenied for Object Lock too: only the text tells it apart. */
const OBJECT_LOCK = /protected by object lock/i;
/**
 * A pass lists every object that is left, and a lock lasts for hours at least. Kubernetes keeps an
 * event for an hour by default, so that `kubectl describe` always shows the reason.
 */
const NEXT_PASS_AFTER_MS = 1_800_000;

/** Deletes what is in a bucket. All of it may be repeated: a second run goes on with the rest. */
export class BucketEmptier {
  readonly #client: S3Client;
  readonly #server: string;
  readonly #places: Turnstile;
  readonly #objects: ObjectDeleter;

  /** Deletions of all volumes share the places: other calls must find a free connection. */
  constructor(client: S3Client, server: string, places: Turnstile) {
    this.#client = client;
    this.#server = server;
    this.#places = places;
    this.#objects = new ObjectDeleter(client, server, places);
  }

  async contents(bucket: string, signal: AbortSignal): Promise<BucketContents> {
    const first = { Bucket: bucket, MaxKeys: 1 };
    try {
      const command = new ListObjectsV2Command(first);
      const { Contents = [] } = await this.#client.send(command, { abortSignal: signal });
      if (Contents.length > 0) return "objects";
    } catch (error) {
      if (whyUnavailable(error) !== undefined) return "unknown";
      throw this.#failure("ListObjectsV2", bucket, error);
    }
    try {
      const command = new ListObjectVersionsCommand(first);
      const answer = await this.#client.send(command, { abortSignal: signal });
      const { Versions = [], DeleteMarkers = [] } = answer;
      return Versions.length + DeleteMarkers.length === 0 ? "nothing" : "versions";
    } catch (error) {
      const why = whyUnavailable(error);
      if (why === "unsupported") return "nothing"; // a server without versions
      if (why === "forbidden") return "no-objects";
      throw this.#failure("ListObjectVersions", bucket, error);
    }
  }

  async empty(request: EmptyRequest, signal: AbortSignal): Promise<"empty" | "more"> {
    const { bucket, deadlineMs, progress } = request;
    try {
      if ((await this.abortUploads(request, signal)) === "more") return "more";
      let page = await this.#firstPage(request, signal);
      for (;;) {
        const errors = await this.#objects.deleteAll(bucket, page.items, signal);
        this.#requirePermission(request, page.items, errors);
        if (page.next === undefined) return this.#end(bucket, progress, errors);
        note(progress, errors, page.next);
        if (performance.now() >= deadlineMs) return "more";
        page = await this.#page(request, page.next, signal);
      }
    } catch (error) {
      if (!(error instanceof NoSuchBucketFailure)) throw error;
      clear(progress);
      return "empty";
    }
  }

  /**
   * A page of which every object is refused with AccessDenied ends the pass, unless the pass has
   * deleted objects before: otherwise an access key that may not delete would try each object of
   * the bucket, in every pass.
   */
  #requirePermission(
    { bucket, versions, progress }: EmptyRequest,
    items: readonly Item[],
    errors: readonly KeyError[],
  ): void {
    if (errors.length < items.length) progress.hasDeleted = true;
    const [first] = errors.map(refusalOf);
    if (first === undefined || progress.hasDeleted === true || !errors.every(isForbidden)) return;
    clear(progress);
    const rights = versions ? "s3:DeleteObject and s3:DeleteObjectVersion" : "s3:DeleteObject";
    const why = this.#whyRefused(bucket, first, errors.length);
    const advice = `grant the access key ${rights} on bucket ${bucket}`;
    throw new Failure("denied", `${why}; ${advice}, unless Object Lock forbids the deletion`);
  }

  /** The next call begins at the front: objects may be new, and locks may have run out. */
  #end(bucket: string, progress: EmptyingProgress, errors: readonly KeyError[]): "empty" {
    const { first, count = 0 } = progress.refused ?? {};
    clear(progress);
    const refusal = first ?? errors.map(refusalOf)[0];
    if (refusal === undefined) return "empty";
    const why = this.#whyRefused(bucket, refusal, count + errors.length);
    const kind = kindOf(refusal.code, 0);
    if (TRANSIENT.has(refusal.code)) throw new Failure(kind, why);
    throw new RetryLaterFailure(kind, why, NEXT_PASS_AFTER_MS);
  }

  async abortUploads(
    { bucket, prefix, deadlineMs }: AbortRequest,
    signal: AbortSignal,
  ): Promise<number | "more" | Unavailable> {
    let markers: { KeyMarker?: string; UploadIdMarker?: string } = {};
    let aborted = 0;
    try {
      for (;;) {
        const input = { Bucket: bucket, Prefix: prefix, ...markers };
        const command = new ListMultipartUploadsCommand(input);
        const answer = await this.#client.send(command, { abortSignal: signal });
        const uploads = (answer.Uploads ?? []).map(({ Key = "", UploadId = "" }) => {
          const keys = this.#keysBelow("ListMultipartUploads", { bucket, prefix }, Key, undefined);
          return { keys, UploadId };
        });
        await eachOf(uploads, ABORTS_AT_ONCE, async ({ keys, UploadId }) => {
          await this.#abortUpload(bucket, keys, UploadId, signal);
        });
        aborted += uploads.length;
        const { IsTruncated, NextKeyMarker, NextUploadIdMarker } = answer;
        if (IsTruncated !== true || NextKeyMarker === undefined) return aborted;
        if (performance.now() >= deadlineMs) return "more";
        const ids = NextUploadIdMarker === undefined ? {} : { UploadIdMarker: NextUploadIdMarker };
        markers = { KeyMarker: NextKeyMarker, ...ids };
      }
    } catch (error) {
      const why = whyUnavailable(error);
      if (why !== undefined) return why;
      throw this.#failure("aborting the uploads in", bucket, error);
    }
  }

  async #abortUpload(
    Bucket: string,
    keys: readonly string[],
    UploadId: string,
    signal: AbortSignal,
  ): Promise<void> {
    for (const Key of keys) {
      try {
        const command = new AbortMultipartUploadCommand({ Bucket, Key, UploadId });
        using _place = await this.#places.enter("small", signal);
        await this.#client.send(command, { abortSignal: signal });
        return;
      } catch (error) {
        if (!GONE.has(answerOf(error).code)) throw error;
      }
    }
  }

  async #firstPage(request: EmptyRequest, signal: AbortSignal): Promise<Page> {
    const { progress } = request;
    try {
      return await this.#page(request, progress.refused?.behind, signal);
    } catch (error) {
      // A server that does not know the place any more must not be asked for it for ever.
      delete progress.refused;
      throw error;
    }
  }

  async #page(
    request: EmptyRequest,
    marker: ListMarker | undefined,
    signal: AbortSignal,
  ): Promise<Page> {
    const isOfObjects = marker !== undefined && "ContinuationToken" in marker;
    if (!request.versions || isOfObjects) {
      return this.#listObjects(request, isOfObjects ? marker : {}, signal);
    }
    try {
      return await this.#listVersions(request, marker ?? {}, signal);
    } catch (error) {
      const isLacking = error instanceof Failure && error.kind === "refused";
      if (isLacking) return this.#listObjects(request, {}, signal);
      throw error;
    }
  }

  async #listObjects(
    { bucket, prefix }: EmptyRequest,
    marker: { readonly ContinuationToken?: string },
    signal: AbortSignal,
  ): Promise<Page> {
    try {
      const command = new ListObjectsV2Command({
        Bucket: bucket,
        Prefix: prefix,
        ...ENCODED,
        ...marker,
      });
      const answer = await this.#client.send(command, { abortSignal: signal });
      const items = (answer.Contents ?? []).map(({ Key: listed = "" }) => {
        const place = { bucket, prefix };
        const [Key = ""] = this.#keysBelow("ListObjectsV2", place, listed, answer.EncodingType);
        return { Key };
      });
      const token = answer.NextContinuationToken;
      if (answer.IsTruncated !== true || token === undefined) return { items, next: undefined };
      return { items, next: { ContinuationToken: token } };
    } catch (error) {
      throw this.#failure("ListObjectsV2", bucket, error);
    }
  }

  async #listVersions(
    { bucket, prefix }: EmptyRequest,
    marker: { readonly KeyMarker?: string; readonly VersionIdMarker?: string },
    signal: AbortSignal,
  ): Promise<Page> {
    try {
      const command = new ListObjectVersionsCommand({
        Bucket: bucket,
        Prefix: prefix,
        ...ENCODED,
        ...marker,
      });
      const answer = await this.#client.send(command, { abortSignal: signal });
      const { EncodingType, IsTruncated, NextKeyMarker, NextVersionIdMarker } = answer;
      const found = [...(answer.Versions ?? []), ...(answer.DeleteMarkers ?? [])];
      const items = found.map(({ Key: listed = "", VersionId = "" }) => {
        const place = { bucket, prefix };
        const [Key = ""] = this.#keysBelow("ListObjectVersions", place, listed, EncodingType);
        return { Key, ...(VersionId !== "" && { VersionId }) };
      });
      if (IsTruncated !== true || NextKeyMarker === undefined) return { items, next: undefined };
      const ids = NextVersionIdMarker === undefined ? {} : { VersionIdMarker: NextVersionIdMarker };
      return { items, next: { KeyMarker: markerOf(NextKeyMarker, EncodingType), ...ids } };
    } catch (error) {
      if (whyUnavailable(error) === "unsupported") {
        throw new Failure("refused", `${this.#server} has no ListObjectVersions`, error);
      }
      throw this.#failure("ListObjectVersions", bucket, error);
    }
  }

  /** Fails for a key outside the prefix, and does not name it: the key is another tenant's. */
  #keysBelow(
    call: string,
    { bucket, prefix }: Pick<AbortRequest, "bucket" | "prefix">,
    listed: string,
    encodingType: string | undefined,
  ): string[] {
    const keys = keysBelow(prefix, listed, encodingType);
    if (keys.length > 0) return keys;
    const problem = "the S3 server ignores the prefix of listings";
    const what = `${call} ${bucket} at ${this.#server}: ${problem}`;
    throw new Failure("remote", `${what}: nothing outside ${prefix} was deleted`);
  }

  #whyRefused(bucket: string, refusal: Refusal, count: number): string {
    const { key, versionId, code, message } = refusal;
    const version = versionId === undefined ? "" : ` version ${versionId}`;
    const others = count === 1 ? "" : ` and ${count - 1} more`;
    const what = `DeleteObjects ${bucket} at ${this.#server}: ${key}${version}${others}`;
    return `${what}: ${code} (${message})`;
  }

  #failure(did: string, subject: string, error: unknown): Failure {
    if (error instanceof Failure) return error;
    return failureFor(`${did} ${subject} at ${this.#server}`, error);
  }
}

function refusalOf({ Key = "", VersionId, Code = "", Message = "" }: KeyError): Refusal {
  return { key: Key, versionId: VersionId, code: Code, message: Message };
}

/** Object Lock refuses single objects, whatever the access key may do. */
function isForbidden({ Code, Message = "" }: KeyError): boolean {
  return Code === "AccessDenied" && !OBJECT_LOCK.test(Message);
}

function clear(progress: EmptyingProgress): void {
  delete progress.refused;
  delete progress.hasDeleted;
}

/** Without a refusal there is nothing to skip: what was deleted is not listed again. */
function note(progress: EmptyingProgress, errors: readonly KeyError[], behind: ListMarker): void {
  const { refused } = progress;
  const first = refused?.first ?? errors.map(refusalOf)[0];
  if (first === undefined) return;
  progress.refused = { first, count: (refused?.count ?? 0) + errors.length, behind };
}

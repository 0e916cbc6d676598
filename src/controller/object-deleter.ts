import { DeleteObjectCommand, DeleteObjectsCommand } from "@aws-sdk/client-s3";
import type { S3Client, _Error as KeyError } from "@aws-sdk/client-s3";
import type { Turnstile } from "../s3/turnstile.ts";
import { eachOf } from "./each-of.ts";
import { GONE, answerOf, failureFor, whyUnavailable } from "./s3-answers.ts";

/** A key, and its version where all versions are deleted. */
export interface Item {
  readonly Key: string;
  readonly VersionId?: string;
}

/** Small enough for a slow server to answer within the silence limit. */
const KEYS_PER_REQUEST = 250;
const REQUESTS_AT_ONCE = 4;
const SINGLES_AT_ONCE = 16;
/** Characters that XML 1.0 has no place for, or that its readers change (CR). */
// oxlint-disable-next-line no-control-regex -- these are the characters that are meant
const NOT_FOR_XML = /[\u0000-\u0008\u000b-\u001f\ufffe\uffff]/;

/** Deletes objects by DeleteObjects, or by DeleteObject where that can't be. */
export class ObjectDeleter {
  readonly #client: S3Client;
  readonly #server: string;
  readonly #places: Turnstile;

  constructor(client: S3Client, server: string, places: Turnstile) {
    this.#client = client;
    this.#server = server;
    this.#places = places;
  }

  /** Returns the errors of those that the server does not delete. */
  async deleteAll(
    bucket: string,
    items: readonly Item[],
    signal: AbortSignal,
  ): Promise<KeyError[]> {
    const errors: KeyError[] = [];
    await eachOf(batchesOf(items), REQUESTS_AT_ONCE, async (batch) => {
      errors.push(...(await this.#deleteBatch(bucket, batch, signal)));
    });
    return errors.filter(({ Code = "" }) => !GONE.has(Code));
  }

  async #deleteBatch(
    bucket: string,
    batch: readonly Item[],
    signal: AbortSignal,
  ): Promise<KeyError[]> {
    const singles = batch.filter(({ Key }) => NOT_FOR_XML.test(Key));
    const Objects = batch.filter(({ Key }) => !NOT_FOR_XML.test(Key));
    const errors = await this.#deleteSingles(bucket, singles, signal);
    if (Objects.length === 0) return errors;
    try {
      const Delete = { Objects, Quiet: true };
      const command = new DeleteObjectsCommand({ Bucket: bucket, Delete });
      using _place = await this.#places.enter("small", signal);
      const { Errors = [] } = await this.#client.send(command, { abortSignal: signal });
      return [...errors, ...Errors];
    } catch (error) {
      const { code, message } = answerOf(error);
      const why = whyUnavailable(error);
      if (why === "forbidden") {
        const refusals = Objects.map((item) => ({ ...item, Code: code, Message: message }));
        return [...errors, ...refusals];
      }
      if (code !== "MalformedXML" && why !== "unsupported") {
        throw failureFor(`DeleteObjects ${bucket} at ${this.#server}`, error);
      }
    }
    return [...errors, ...(await this.#deleteSingles(bucket, Objects, signal))];
  }

  async #deleteSingles(
    bucket: string,
    items: readonly Item[],
    signal: AbortSignal,
  ): Promise<KeyError[]> {
    const errors: KeyError[] = [];
    await eachOf(items, SINGLES_AT_ONCE, async (item) => {
      try {
        const command = new DeleteObjectCommand({ Bucket: bucket, ...item });
        using _place = await this.#places.enter("small", signal);
        await this.#client.send(command, { abortSignal: signal });
      } catch (error) {
        const { code, status, message } = answerOf(error);
        if (status === 0) {
          throw failureFor(`DeleteObject ${bucket}/${item.Key} at ${this.#server}`, error);
        }
        errors.push({ ...item, Code: code, Message: message });
      }
    });
    return errors;
  }
}

function batchesOf(items: readonly Item[]): (readonly Item[])[] {
  const count = Math.ceil(items.length / KEYS_PER_REQUEST);
  return Array.from({ length: count }, (_, index) =>
    items.slice(index * KEYS_PER_REQUEST, (index + 1) * KEYS_PER_REQUEST),
  );
}

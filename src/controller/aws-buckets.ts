import http from "node:http";
import https from "node:https";
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetBucketTaggingCommand,
  HeadBucketCommand,
  PutBucketTaggingCommand,
  S3Client,
  paginateListObjectsV2,
} from "@aws-sdk/client-s3";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { kindOf } from "../s3/s3-error.ts";
import type { Buckets, Tags } from "./buckets.ts";
import type { Keys } from "./keys.ts";

export interface ServerOptions {
  /** Undefined: AWS itself. */
  readonly endpoint: string | undefined;
  /** Certificates to trust instead of the system's. */
  readonly ca: string | undefined;
  /** HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in capitals or not. */
  readonly proxyEnv: Environment;
  readonly userAgent: string;
  readonly connectTimeoutMs?: number;
  /** A server that is silent for so long is asked again. */
  readonly silenceLimitMs?: number;
}

const ATTEMPTS_MAX = 3;
const CONNECT_TIMEOUT_MS = 3_000;
const SILENCE_LIMIT_MS = 10_000;
const CONNECTIONS_MAX = 32;
const DELETES_AT_ONCE = 16;

/** One S3 server; connections are shared by all who ask it. */
export class AwsServer implements Disposable {
  readonly #options: ServerOptions;
  readonly #httpAgent: http.Agent;
  readonly #httpsAgent: https.Agent;

  constructor(options: ServerOptions) {
    this.#options = options;
    const kept = { keepAlive: true, maxSockets: CONNECTIONS_MAX, proxyEnv: options.proxyEnv };
    const trust = options.ca === undefined ? {} : { ca: options.ca };
    this.#httpAgent = new http.Agent(kept);
    this.#httpsAgent = new https.Agent({ ...kept, ...trust });
  }

  open({ credentials }: Keys, region: string): Buckets {
    const { endpoint, userAgent, connectTimeoutMs, silenceLimitMs } = this.#options;
    const { accessKeyId, secretAccessKey, sessionToken } = credentials;
    const token = sessionToken === undefined ? {} : { sessionToken: sessionToken.reveal() };
    const client = new S3Client({
      region,
      ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
      credentials: { accessKeyId, secretAccessKey: secretAccessKey.reveal(), ...token },
      maxAttempts: ATTEMPTS_MAX,
      customUserAgent: userAgent,
      requestHandler: {
        httpAgent: this.#httpAgent,
        httpsAgent: this.#httpsAgent,
        connectionTimeout: connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
        requestTimeout: silenceLimitMs ?? SILENCE_LIMIT_MS,
        throwOnRequestTimeout: true,
      },
    });
    return new AwsBuckets(client, endpoint ?? `AWS ${region}`);
  }

  [Symbol.dispose](): void {
    this.#httpAgent.destroy();
    this.#httpsAgent.destroy();
  }
}

class AwsBuckets implements Buckets {
  readonly #client: S3Client;
  readonly #server: string;

  constructor(client: S3Client, server: string) {
    this.#client = client;
    this.#server = server;
  }

  async create(bucket: string, signal: AbortSignal): Promise<"ours" | "taken"> {
    const command = new CreateBucketCommand({ Bucket: bucket });
    try {
      await this.#client.send(command, { abortSignal: signal });
    } catch (error) {
      const { code } = said(error);
      if (code === "BucketAlreadyExists") return "taken";
      if (code !== "BucketAlreadyOwnedByYou") throw this.#failure("CreateBucket", bucket, error);
    }
    return "ours";
  }

  async exists(bucket: string, signal: AbortSignal): Promise<boolean> {
    const command = new HeadBucketCommand({ Bucket: bucket });
    try {
      await this.#client.send(command, { abortSignal: signal });
      return true;
    } catch (error) {
      if (said(error).status === 404) return false;
      throw this.#failure("HeadBucket", bucket, error);
    }
  }

  async tags(bucket: string, signal: AbortSignal): Promise<Tags | undefined> {
    const command = new GetBucketTaggingCommand({ Bucket: bucket });
    try {
      const { TagSet = [] } = await this.#client.send(command, { abortSignal: signal });
      return Object.fromEntries(TagSet.map(({ Key = "", Value = "" }) => [Key, Value]));
    } catch (error) {
      if (said(error).code === "NoSuchTagSet") return {};
      if (hasNoTags(error)) return undefined;
      throw this.#failure("GetBucketTagging", bucket, error);
    }
  }

  async setTags(bucket: string, tags: Tags, signal: AbortSignal): Promise<boolean> {
    const TagSet = Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
    const command = new PutBucketTaggingCommand({ Bucket: bucket, Tagging: { TagSet } });
    try {
      await this.#client.send(command, { abortSignal: signal });
      return true;
    } catch (error) {
      if (hasNoTags(error)) return false;
      throw this.#failure("PutBucketTagging", bucket, error);
    }
  }

  async delete(bucket: string, signal: AbortSignal): Promise<"deleted" | "absent" | "not-empty"> {
    const command = new DeleteBucketCommand({ Bucket: bucket });
    try {
      await this.#client.send(command, { abortSignal: signal });
      return "deleted";
    } catch (error) {
      const { code } = said(error);
      if (code === "NoSuchBucket") return "absent";
      if (code === "BucketNotEmpty") return "not-empty";
      throw this.#failure("DeleteBucket", bucket, error);
    }
  }

  async empty(bucket: string, prefix: string, signal: AbortSignal): Promise<void> {
    const list = { Bucket: bucket, Prefix: prefix };
    const config = { client: this.#client };
    try {
      for await (const page of paginateListObjectsV2(config, list, { abortSignal: signal })) {
        const keys = (page.Contents ?? []).map(({ Key = "" }) => Key);
        await eachOf(keys, DELETES_AT_ONCE, async (Key) => {
          const command = new DeleteObjectCommand({ Bucket: bucket, Key });
          await this.#client.send(command, { abortSignal: signal });
        });
      }
    } catch (error) {
      if (said(error).code === "NoSuchBucket") return;
      throw this.#failure("emptying", `${bucket}/${prefix}`, error);
    }
  }

  #failure(did: string, subject: string, error: unknown): Failure {
    const { code, status, message } = said(error);
    const about = `${did} ${subject} at ${this.#server}`;
    if (code === "AbortError") return new Failure("timeout", `${about}: not in time`, error);
    // Whatever has no answer may have been done: that is `remote`, not a verdict.
    const kind = status === 0 ? "remote" : kindOf(code, status);
    const answer = status === 0 ? "" : `HTTP ${status} `;
    return new Failure(kind, `${about}: ${answer}${code} (${message})`, error);
  }
}

/** What S3 answered; status 0 when nothing came. */
function said(error: unknown): { code: string; status: number; message: string } {
  if (!(error instanceof Error)) throw error;
  const { $metadata } = error as { $metadata?: { httpStatusCode?: number } };
  return { code: error.name, status: $metadata?.httpStatusCode ?? 0, message: error.message };
}

/** Refused for good, be it by the server's make or by a policy: it works without tags as well. */
function hasNoTags(error: unknown): boolean {
  const { status } = said(error);
  return (
    status === 501 || (status >= 400 && status < 500 && ![404, 408, 409, 429].includes(status))
  );
}

async function eachOf<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    for (const item of queue) await work(item);
  });
  await Promise.all(workers);
}

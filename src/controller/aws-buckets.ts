import http from "node:http";
import https from "node:https";
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetBucketAclCommand,
  GetBucketTaggingCommand,
  HeadBucketCommand,
  ListObjectsV2Command,
  PutBucketTaggingCommand,
  S3Client,
  paginateListBuckets,
  paginateListObjectsV2,
} from "@aws-sdk/client-s3";
import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { kindOf } from "../s3/s3-error.ts";
import type { Buckets, NoTags, Tags } from "./buckets.ts";
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

  /**
   * In the list of one's own buckets; whoever administers a server may see all of them there, so
   * that the bucket's owner has the last word where it is told.
   */
  async owns(bucket: string, signal: AbortSignal): Promise<"yes" | "no" | "unknown"> {
    const config = { client: this.#client };
    try {
      for await (const page of paginateListBuckets(config, {}, { abortSignal: signal })) {
        if (page.Buckets?.some(({ Name }) => Name === bucket) !== true) continue;
        const owner = await this.#ownerOf(bucket, signal);
        return owner === undefined || owner === page.Owner?.ID ? "yes" : "no";
      }
      return "no";
    } catch (error) {
      if (whyWithout(error) !== undefined) return "unknown";
      throw this.#failure("ListBuckets", bucket, error);
    }
  }

  async #ownerOf(bucket: string, signal: AbortSignal): Promise<string | undefined> {
    const command = new GetBucketAclCommand({ Bucket: bucket });
    try {
      return (await this.#client.send(command, { abortSignal: signal })).Owner?.ID;
    } catch (error) {
      if (whyWithout(error) !== undefined) return undefined;
      throw this.#failure("GetBucketAcl", bucket, error);
    }
  }

  async isEmpty(bucket: string, signal: AbortSignal): Promise<boolean> {
    const command = new ListObjectsV2Command({ Bucket: bucket, MaxKeys: 1 });
    try {
      const { Contents = [] } = await this.#client.send(command, { abortSignal: signal });
      return Contents.length === 0;
    } catch (error) {
      throw this.#failure("ListObjectsV2", bucket, error);
    }
  }

  async tags(bucket: string, signal: AbortSignal): Promise<Tags | NoTags> {
    const command = new GetBucketTaggingCommand({ Bucket: bucket });
    try {
      const { TagSet = [] } = await this.#client.send(command, { abortSignal: signal });
      return Object.fromEntries(TagSet.map(({ Key = "", Value = "" }) => [Key, Value]));
    } catch (error) {
      if (said(error).code === "NoSuchTagSet") return {};
      const why = whyWithout(error);
      if (why !== undefined) return why;
      throw this.#failure("GetBucketTagging", bucket, error);
    }
  }

  async setTags(bucket: string, tags: Tags, signal: AbortSignal): Promise<"set" | NoTags> {
    const TagSet = Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
    const command = new PutBucketTaggingCommand({ Bucket: bucket, Tagging: { TagSet } });
    try {
      await this.#client.send(command, { abortSignal: signal });
      return "set";
    } catch (error) {
      const why = whyWithout(error);
      if (why !== undefined) return why;
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

/** A call that we can do without: the server lacks it, or a policy refuses it to valid keys. */
function whyWithout(error: unknown): NoTags | undefined {
  const { code, status } = said(error);
  const isLacking = status === 501 || status === 405;
  if (isLacking || code === "NotImplemented" || code === "MethodNotAllowed") return "unsupported";
  return code === "AccessDenied" ? "forbidden" : undefined;
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

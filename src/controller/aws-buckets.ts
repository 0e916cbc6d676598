import http from "node:http";
import https from "node:https";
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetBucketAclCommand,
  GetBucketTaggingCommand,
  HeadBucketCommand,
  PutBucketTaggingCommand,
  S3Client,
  paginateListBuckets,
} from "@aws-sdk/client-s3";
import type { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import type { CaBundle } from "../s3/ca-bundle.ts";
import { Turnstile } from "../s3/turnstile.ts";
import { BucketEmptier } from "./bucket-emptier.ts";
import type {
  AbortRequest,
  BucketContents,
  Buckets,
  EmptyRequest,
  Tags,
  Unavailable,
} from "./buckets.ts";
import { addContentMd5 } from "./content-md5.ts";
import type { Keys } from "./keys.ts";
import { answerOf, failureFor, whyUnavailable } from "./s3-answers.ts";

export interface ServerOptions {
  /** Undefined: AWS itself. */
  readonly endpoint: string | undefined;
  /** Certificates to trust instead of the system's. */
  readonly ca: CaBundle | undefined;
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
/** Of these, for the deletion of objects. */
const DELETIONS_MAX = 16;

/** One S3 server; connections are shared by all who ask it. */
export class AwsServer implements Disposable {
  readonly #options: ServerOptions;
  readonly #httpAgent: http.Agent;
  #httpsAgent: https.Agent;
  readonly #deletions = new Turnstile(DELETIONS_MAX);
  /** The authorities that the agent trusts. */
  #certificates: readonly string[] | undefined;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#httpAgent = new http.Agent(this.#agentOptions());
    this.#certificates = options.ca?.certificates();
    this.#httpsAgent = this.#newHttpsAgent();
  }

  open({ credentials }: Keys, region: string): Buckets {
    this.#refreshTrust();
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
    return new AwsBuckets(client, endpoint ?? `AWS ${region}`, this.#deletions);
  }

  [Symbol.dispose](): void {
    this.#httpAgent.destroy();
    this.#httpsAgent.destroy();
  }

  /** The agent also keeps TLS sessions that vouch for a certificate: a new CA needs a new agent. */
  #refreshTrust(): void {
    const certificates = this.#options.ca?.certificates();
    if (certificates === this.#certificates) return;
    this.#certificates = certificates;
    const before = this.#httpsAgent;
    this.#httpsAgent = this.#newHttpsAgent();
    // Requests that are under way keep their connections, which are closed behind them.
    before.maxFreeSockets = 0;
    for (const socket of Object.values(before.freeSockets).flat()) socket?.destroy();
  }

  #newHttpsAgent(): https.Agent {
    const ca = this.#certificates;
    return new https.Agent({ ...this.#agentOptions(), ...(ca && { ca: [...ca] }) });
  }

  #agentOptions() {
    const { proxyEnv } = this.#options;
    return { keepAlive: true, maxSockets: CONNECTIONS_MAX, proxyEnv };
  }
}

class AwsBuckets implements Buckets {
  readonly #client: S3Client;
  readonly #server: string;
  readonly #emptier: BucketEmptier;

  constructor(client: S3Client, server: string, deletions: Turnstile) {
    this.#client = client;
    this.#server = server;
    addContentMd5(client);
    this.#emptier = new BucketEmptier(client, server, deletions);
  }

  async create(bucket: string, signal: AbortSignal): Promise<"ours" | "taken"> {
    const command = new CreateBucketCommand({ Bucket: bucket });
    try {
      await this.#client.send(command, { abortSignal: signal });
    } catch (error) {
      const { code } = answerOf(error);
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
      if (answerOf(error).status === 404) return false;
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
      if (whyUnavailable(error) !== undefined) return "unknown";
      throw this.#failure("ListBuckets", bucket, error);
    }
  }

  async #ownerOf(bucket: string, signal: AbortSignal): Promise<string | undefined> {
    const command = new GetBucketAclCommand({ Bucket: bucket });
    try {
      return (await this.#client.send(command, { abortSignal: signal })).Owner?.ID;
    } catch (error) {
      if (whyUnavailable(error) !== undefined) return undefined;
      throw this.#failure("GetBucketAcl", bucket, error);
    }
  }

  contents(bucket: string, signal: AbortSignal): Promise<BucketContents> {
    return this.#emptier.contents(bucket, signal);
  }

  async tags(bucket: string, signal: AbortSignal): Promise<Tags | Unavailable> {
    const command = new GetBucketTaggingCommand({ Bucket: bucket });
    try {
      const { TagSet = [] } = await this.#client.send(command, { abortSignal: signal });
      return Object.fromEntries(TagSet.map(({ Key = "", Value = "" }) => [Key, Value]));
    } catch (error) {
      if (answerOf(error).code === "NoSuchTagSet") return {};
      const why = whyUnavailable(error);
      if (why !== undefined) return why;
      throw this.#failure("GetBucketTagging", bucket, error);
    }
  }

  async setTags(bucket: string, tags: Tags, signal: AbortSignal): Promise<"set" | Unavailable> {
    const TagSet = Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
    const command = new PutBucketTaggingCommand({ Bucket: bucket, Tagging: { TagSet } });
    try {
      await this.#client.send(command, { abortSignal: signal });
      return "set";
    } catch (error) {
      const why = whyUnavailable(error);
      if (why !== undefined) return why;
      throw this.#failure("PutBucketTagging", bucket, error);
    }
  }

  async delete(
    bucket: string,
    signal: AbortSignal,
  ): Promise<"deleted" | "absent" | "not-empty" | "uploads"> {
    const command = new DeleteBucketCommand({ Bucket: bucket });
    try {
      await this.#client.send(command, { abortSignal: signal });
      return "deleted";
    } catch (error) {
      const { code } = answerOf(error);
      if (code === "NoSuchBucket") return "absent";
      if (code === "BucketNotEmpty") return "not-empty";
      if (code === "MPUinProgress") return "uploads"; // a word of Scality's servers alone
      throw this.#failure("DeleteBucket", bucket, error);
    }
  }

  abortUploads(request: AbortRequest, signal: AbortSignal): Promise<number | "more" | Unavailable> {
    return this.#emptier.abortUploads(request, signal);
  }

  empty(request: EmptyRequest, signal: AbortSignal): Promise<"empty" | "more"> {
    return this.#emptier.empty(request, signal);
  }

  #failure(did: string, subject: string, error: unknown): Failure {
    return failureFor(`${did} ${subject} at ${this.#server}`, error);
  }
}

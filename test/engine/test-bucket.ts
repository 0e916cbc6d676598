import {
  AbortMultipartUploadCommand,
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  paginateListObjectsV2,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import type { S3Access, S3Server } from "../../tools/stack/s3-server.ts";
import { startChosenS3Server } from "../../tools/stack/s3-servers.ts";

/** A bucket on a server of its own, seen through the vendor's client: the judge of the engine's. */
export class TestBucket implements AsyncDisposable {
  readonly name = "test-bucket";
  readonly server: S3Server;
  readonly #client: S3Client;
  readonly #owned: AsyncDisposableStack;

  private constructor(server: S3Server, client: S3Client, owned: AsyncDisposableStack) {
    this.server = server;
    this.#client = client;
    this.#owned = owned;
  }

  static async start(
    startServer: () => Promise<S3Server> = startChosenS3Server,
  ): Promise<TestBucket> {
    await using owned = new AsyncDisposableStack();
    const server = owned.use(await startServer());
    const { endpoint, region, accessKeyId, secretAccessKey } = server;
    const credentials = { accessKeyId, secretAccessKey };
    const client = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
    owned.defer(() => client.destroy());
    const bucket = new TestBucket(server, client, owned.move());
    await client.send(new CreateBucketCommand({ Bucket: bucket.name }));
    return bucket;
  }

  get access(): S3Access {
    return this.server;
  }

  async put(key: string, body: string | Uint8Array): Promise<void> {
    await this.#client.send(new PutObjectCommand({ Bucket: this.name, Key: key, Body: body }));
  }

  async get(key: string): Promise<Buffer> {
    const got = await this.#client.send(new GetObjectCommand({ Bucket: this.name, Key: key }));
    return Buffer.from((await got.Body?.transformToByteArray()) ?? []);
  }

  async contentType(key: string): Promise<string | undefined> {
    const command = new HeadObjectCommand({ Bucket: this.name, Key: key });
    return (await this.#client.send(command)).ContentType;
  }

  async delete(key: string): Promise<void> {
    await this.#client.send(new DeleteObjectCommand({ Bucket: this.name, Key: key }));
  }

  async keys(): Promise<string[]> {
    const keys: string[] = [];
    for await (const page of paginateListObjectsV2(
      { client: this.#client },
      { Bucket: this.name },
    )) {
      keys.push(...(page.Contents ?? []).map(({ Key }) => Key ?? ""));
    }
    return keys;
  }

  async unfinishedUploads(): Promise<number> {
    const command = new ListMultipartUploadsCommand({ Bucket: this.name });
    return (await this.#client.send(command)).Uploads?.length ?? 0;
  }

  /** Ends all uploads as another client does; returns how many there were. */
  async abortUploads(): Promise<number> {
    const Bucket = this.name;
    const { Uploads = [] } = await this.#client.send(new ListMultipartUploadsCommand({ Bucket }));
    for (const { Key, UploadId } of Uploads) {
      await this.#client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }));
    }
    return Uploads.length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }
}

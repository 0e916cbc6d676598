import {
  CreateMultipartUploadCommand,
  ListBucketsCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutBucketPolicyCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import type { S3Client } from "@aws-sdk/client-s3";
import { create } from "@bufbuild/protobuf";
import { AwsServer } from "../../src/controller/aws-buckets.ts";
import { BucketVolumes } from "../../src/controller/bucket-volumes.ts";
import { driverKeys } from "../../src/controller/keys.ts";
import {
  CreateVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../../src/csi/gen/csi_pb.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import type { PosixS3Server, S3Access } from "../../tools/stack/s3-server.ts";
import { FaultyLine } from "../provisioner/faulty-line.ts";
import type { Judge, Passing } from "../provisioner/faulty-line.ts";
import { environmentOf, log } from "../provisioner/objects.ts";
import { scalityFront } from "./scality-front.ts";

export const signal = AbortSignal.timeout(120_000);
const mode = { mode: Mode.MULTI_NODE_MULTI_WRITER };
export const RWX = { accessMode: mode, accessType: { case: "mount" as const, value: {} } };
export const ODD_KEYS = ["a b", "ü/é", "50%/+&<>'\"", "a+b", "%41", "deep/er/still", "x\ty"];
const REQUESTS_AT_ONCE = 16;

export const isTagging = ({ path }: Pick<Passing, "path">) => path.includes("?tagging");
export const isUploads = ({ path }: Pick<Passing, "path">) => /[?&]uploads(=|&|$)/.test(path);
export const isBucketDeletion = ({ method, path }: Passing) =>
  method === "DELETE" && /^\/[^/?]+\/?\??$/.test(path);

export const bucketOf = (name: string) => `csi-s3-${volumeUuidOf(name)}`;
export const requestFor = (name: string, onDelete?: string) =>
  create(CreateVolumeRequestSchema, {
    name,
    volumeCapabilities: [RWX],
    ...(onDelete === undefined ? {} : { parameters: { onDelete } }),
  });

interface DriverOptions {
  readonly judge?: Judge;
  readonly endpoint?: string;
  readonly emptyingLimitMs?: number;
}

/** An account on an S3 server with versions, and a driver that has its keys. */
export class AccountWorld implements AsyncDisposable {
  readonly own: S3Access;
  readonly client: S3Client;
  readonly #s3: PosixS3Server;

  private constructor(s3: PosixS3Server, own: S3Access) {
    this.#s3 = s3;
    this.own = own;
    this.client = clientOf(own);
  }

  static async start(): Promise<AccountWorld> {
    const s3 = await startS3Server({ versions: true });
    return new AccountWorld(s3, await s3.addAccount("own"));
  }

  [Symbol.asyncDispose](): PromiseLike<void> {
    return this.#s3[Symbol.asyncDispose]();
  }

  /** Behind a server that answers as `judge` says. */
  async driver({ judge, endpoint, emptyingLimitMs }: DriverOptions = {}) {
    const { own } = this;
    await using owned = new AsyncDisposableStack();
    const target = new URL(endpoint ?? own.endpoint);
    const line = owned.use(new FaultyLine({ target, judge: judge ?? scalityFront(own) }));
    const url = await line.listen();
    const common = { ca: undefined, proxyEnv: {}, userAgent: "test" };
    const server = owned.use(new AwsServer({ ...common, endpoint: url }));
    const volumes = new BucketVolumes({
      open: async (keys, region) => server.open(keys, region),
      driverKeys: () => driverKeys(undefined, environmentOf(own)),
      region: own.region,
      log,
      ...(emptyingLimitMs === undefined ? {} : { emptyingLimitMs }),
    });
    const all = owned.move();
    const remove = (name: string, as = name) =>
      volumes.delete({ volumeId: bucketOf(name), name: as, secrets: {} }, signal);
    return { volumes, remove, [Symbol.asyncDispose]: () => all.disposeAsync() };
  }

  async put(Bucket: string, Key: string): Promise<void> {
    await this.client.send(new PutObjectCommand({ Bucket, Key, Body: Key }));
  }

  putAll(bucket: string, keys: readonly string[]): Promise<void> {
    return forEach(keys, (key) => this.put(bucket, key));
  }

  beginAll(bucket: string, keys: readonly string[]): Promise<void> {
    return forEach(keys, (key) => this.begin(bucket, key));
  }

  async begin(Bucket: string, Key: string): Promise<void> {
    await this.client.send(new CreateMultipartUploadCommand({ Bucket, Key }));
  }

  async keepVersions(Bucket: string): Promise<void> {
    const VersioningConfiguration = { Status: "Enabled" as const };
    await this.client.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
  }

  async hasBucket(bucket: string): Promise<boolean> {
    const { Buckets = [] } = await this.client.send(new ListBucketsCommand({}));
    return Buckets.some(({ Name }) => Name === bucket);
  }

  async uploadsIn(Bucket: string): Promise<number> {
    const { Uploads = [] } = await this.client.send(new ListMultipartUploadsCommand({ Bucket }));
    return Uploads.length;
  }

  async keysIn(Bucket: string, Prefix = ""): Promise<string[]> {
    const command = new ListObjectsV2Command({ Bucket, Prefix });
    const { Contents = [] } = await this.client.send(command);
    return Contents.map(({ Key = "" }) => Key);
  }

  /** Like an Object Lock on what is below `locked/`; without a lock the account may do all. */
  async lock(bucket: string, isLocked: boolean): Promise<void> {
    const statement = (Effect: string, Action: string, path: string) => ({
      Effect,
      Principal: { AWS: ["own"] },
      Action,
      Resource: [`arn:aws:s3:::${bucket}${path}`],
    });
    const locks = ["s3:DeleteObject", "s3:DeleteObjectVersion"].map((action) =>
      statement("Deny", action, "/locked/*"),
    );
    const Statement = [
      statement("Allow", "s3:*", "/*"),
      statement("Allow", "s3:*", ""),
      ...(isLocked ? locks : []),
    ];
    const Policy = JSON.stringify({ Version: "2012-10-17", Statement });
    await clientOf(this.#s3).send(new PutBucketPolicyCommand({ Bucket: bucket, Policy }));
  }
}

async function forEach(keys: readonly string[], work: (key: string) => Promise<void>) {
  const left = keys.values();
  const workers = Array.from({ length: REQUESTS_AT_ONCE }, async () => {
    for (const key of left) await work(key);
  });
  await Promise.all(workers);
}

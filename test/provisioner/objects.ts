import {
  DeleteBucketCommand,
  DeleteObjectCommand,
  ListBucketsCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import type { S3Client } from "@aws-sdk/client-s3";
import { createLog } from "../../src/base/pino-log.ts";
import { openVolumes } from "../../src/controller/open-volumes.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { EVENTS, PVCS, PVS, SECRETS, STORAGE_CLASSES } from "../../src/kube/resource.ts";
import type {
  KubeEvent,
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "../../src/kube/resource.ts";
import { WatchedList } from "../../src/kube/watched-list.ts";
import { volumeUses } from "../../src/provisioner/volume-uses.ts";
import { DRIVER_NAME } from "../../src/volume/names.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import type { S3Access } from "../../tools/stack/s3-server.ts";

export const log = createLog(process.env["DEBUG"] ? "info" : "error", { role: "test" });

export interface ClassOptions extends Partial<Omit<StorageClass, "metadata" | "provisioner">> {
  readonly parameters?: Record<string, string>;
}

/** Makes the user's objects, follows the driver's, and looks at S3 from outside. */
export class Users {
  readonly claims;
  readonly volumes;
  readonly events;
  readonly s3: S3Client;
  readonly #admin: KubeClient;
  readonly #signal: AbortSignal;

  constructor(admin: KubeClient, s3: S3Access, signal: AbortSignal) {
    this.#admin = admin;
    this.#signal = signal;
    this.s3 = clientOf(s3);
    const common = { client: admin, log };
    this.claims = new WatchedList<PersistentVolumeClaim, PersistentVolumeClaim>({
      ...common,
      resource: PVCS,
      project: (claim) => claim,
    });
    this.volumes = new WatchedList<PersistentVolume, PersistentVolume>({
      ...common,
      resource: PVS,
      project: (volume) => volume,
    });
    this.events = new WatchedList<KubeEvent, KubeEvent>({
      ...common,
      resource: EVENTS,
      project: (event) => event,
    });
  }

  async start(): Promise<void> {
    const lists = [this.claims, this.volumes, this.events];
    for (const list of lists) list.start(this.#signal).catch((error: unknown) => log.error(error));
    await Promise.all(lists.map((list) => list.synced));
  }

  async storageClass(name: string, options: ClassOptions = {}): Promise<void> {
    const object: StorageClass = { metadata: { name }, provisioner: DRIVER_NAME, ...options };
    await this.#admin.create(STORAGE_CLASSES, object, this.#signal);
  }

  async claim(
    name: string,
    className: string | undefined,
    spec: Partial<NonNullable<PersistentVolumeClaim["spec"]>> = {},
    metadata: { namespace?: string; annotations?: Record<string, string> } = {},
  ): Promise<string> {
    const namespace = metadata.namespace ?? "default";
    const claim: PersistentVolumeClaim = {
      metadata: { ...metadata, name, namespace },
      spec: {
        accessModes: ["ReadWriteMany"],
        ...(className === undefined ? {} : { storageClassName: className }),
        resources: { requests: { storage: "1Gi" } },
        ...spec,
      },
    };
    const made = await this.#admin.create(PVCS, claim, this.#signal);
    return made.metadata?.uid ?? "";
  }

  async secret(namespace: string, name: string, stringData: Record<string, string>): Promise<void> {
    await this.#admin.create(SECRETS, { metadata: { namespace, name }, stringData }, this.#signal);
  }

  /** A Released PV that a person with the right to create PVs has written. */
  async forge(
    name: string,
    volumeHandle: string,
    spec: Partial<NonNullable<PersistentVolume["spec"]>> = {},
  ): Promise<void> {
    const secretName = "volume.kubernetes.io/provisioner-deletion-secret-name";
    const annotations = {
      "pv.kubernetes.io/provisioned-by": DRIVER_NAME,
      [secretName]: "",
      [`${secretName}space`]: "",
    };
    const claimRef = {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      namespace: "default",
      name: `${name}-claim`,
      uid: "0f0e0d0c-0b0a-4908-8706-050403020100",
    };
    const volume: PersistentVolume = {
      metadata: { name, annotations },
      spec: {
        accessModes: ["ReadWriteMany"],
        capacity: { storage: "1Gi" },
        persistentVolumeReclaimPolicy: "Delete",
        claimRef,
        csi: { driver: DRIVER_NAME, volumeHandle },
        ...spec,
      },
    };
    await this.#admin.create(PVS, volume, this.#signal);
  }

  async released(name: string): Promise<void> {
    await this.volumes.until(
      (list) => (list.get(name)?.status?.phase === "Released" ? true : undefined),
      this.#signal,
    );
  }

  async deleteClaim(name: string, namespace = "default"): Promise<void> {
    await this.#admin.delete(PVCS, { namespace, name }, {}, this.#signal);
  }

  /** The claim's PV, once both are bound and the claim is held by nobody of ours. */
  async bound(name: string, namespace = "default"): Promise<PersistentVolume> {
    const claim = await this.claims.until((list) => {
      const found = list.get(`${namespace}/${name}`);
      const isHeld = found?.metadata?.finalizers?.includes(`${DRIVER_NAME}/provisioning`);
      return found?.status?.phase === "Bound" && isHeld !== true ? found : undefined;
    }, this.#signal);
    return this.volumes.until((list) => {
      const volume = list.get(claim.spec?.volumeName ?? "");
      return volume?.status?.phase === "Bound" ? volume : undefined;
    }, this.#signal);
  }

  async volumeGone(name: string): Promise<void> {
    await this.volumes.until(
      (list) => (list.get(name) === undefined ? true : undefined),
      this.#signal,
    );
  }

  async claimGone(name: string, namespace = "default"): Promise<void> {
    await this.claims.until(
      (list) => (list.get(`${namespace}/${name}`) === undefined ? true : undefined),
      this.#signal,
    );
  }

  /** Deletes a claim, and waits until its PV is gone too. */
  async removed(name: string, namespace = "default"): Promise<void> {
    const { spec } = this.claims.get(`${namespace}/${name}`) ?? {};
    await this.deleteClaim(name, namespace);
    await this.volumeGone(spec?.volumeName ?? "");
  }

  /** The first event about an object with this reason whose note fits. */
  async event(about: string, reason: string, note: RegExp): Promise<KubeEvent> {
    const fits = (event: KubeEvent) =>
      event.regarding?.name === about && event.reason === reason && note.test(event.note ?? "");
    return this.events.until((list) => list.values().find(fits), this.#signal);
  }

  /**
   * The first that the driver itself writes. Kubernetes' own controller of claims also writes
   * ProvisioningFailed, for one that it sees before its class.
   */
  async ownEvent(about: string, reason: string): Promise<KubeEvent> {
    const fits = ({ regarding, reportingController, reason: its }: KubeEvent) =>
      reportingController === DRIVER_NAME && regarding?.name === about && its === reason;
    return this.events.until((list) => list.values().find(fits), this.#signal);
  }

  async put(bucket: string, key: string): Promise<void> {
    await this.s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: key }));
  }

  /** A bucket with at most the object `k` in it. */
  async removeBucket(bucket: string): Promise<void> {
    await this.s3.send(new DeleteObjectCommand({ Bucket: bucket, Key: "k" }));
    await this.s3.send(new DeleteBucketCommand({ Bucket: bucket }));
  }

  async buckets(): Promise<string[]> {
    const { Buckets = [] } = await this.s3.send(new ListBucketsCommand({}));
    return Buckets.map(({ Name = "" }) => Name);
  }
}

/** The environment of a controller whose own keys are these. */
export function environmentOf(s3: S3Access): Record<string, string> {
  return {
    AWS_ENDPOINT_URL: s3.endpoint,
    AWS_REGION: s3.region,
    AWS_ACCESS_KEY_ID: s3.accessKeyId,
    AWS_SECRET_ACCESS_KEY: s3.secretAccessKey,
  };
}

/** The driver's volumes, for a controller with this access to the API server. */
export function volumesOf(s3: S3Access, client: KubeClient) {
  const env = environmentOf(s3);
  const findUses = volumeUses(client);
  return openVolumes({ env, credentialsDir: undefined, userAgent: "s3csi/test", log, findUses });
}

export function secretOf({ accessKeyId, secretAccessKey }: S3Access): Record<string, string> {
  return { access_key_id: accessKeyId, secret_access_key: secretAccessKey };
}

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseMountInfo } from "../../src/sys/mount-info.ts";
import type { MountEntry } from "../../src/sys/mount-info.ts";
import { IMAGE, IMAGE_ARCHIVE } from "../image.ts";
import { programs } from "../programs.ts";
import { run } from "../run.ts";
import type { Cluster } from "./cluster.ts";
import type { S3Access } from "./s3-server.ts";

const CHART = join(import.meta.dirname, "../../deploy/chart");
export const DRIVER_NAMESPACE = "kube-system";
const RELEASE = "s3csi";

export interface DriverSetup {
  /** Chart values, beside or in place of the usual ones. */
  readonly values?: Readonly<Record<string, string>>;
  /** Chart values that are read from files. */
  readonly files?: Readonly<Record<string, string>>;
  /** False: the driver's Secret is created later. */
  readonly hasSecret?: boolean;
}

/**
 * Installs the chart as a user would: image, credentials, `helm install`; ready when it returns.
 */
export async function installDriver(cluster: Cluster, setup: DriverSetup = {}): Promise<void> {
  const { s3, kubeconfig } = cluster;
  await cluster.importImage(IMAGE_ARCHIVE);
  if (setup.hasSecret !== false) await cluster.apply(driverSecret(s3));
  const [repository = "", tag = ""] = IMAGE.split(/:(?=[^:]*$)/);
  const values = {
    "image.repository": repository,
    "image.tag": tag,
    "image.pullPolicy": "Never",
    "s3.endpointUrl": s3.endpoint,
    "s3.region": s3.region,
    "controller.replicas": "1", // its log is one log
    ...setup.values,
  };
  const sets = [...flagsOf("--set", values), ...flagsOf("--set-file", setup.files ?? {})];
  const target = ["--namespace", DRIVER_NAMESPACE, "--kubeconfig", kubeconfig];
  const helm = join(await programs("helm"), "helm");
  await run(helm, ["install", RELEASE, CHART, ...target, ...sets, "--wait", "--timeout=90s"]);
  const node = `daemonset/${RELEASE}-node`;
  await cluster.kubectl(["rollout", "status", node, "-n", DRIVER_NAMESPACE, "--timeout=60s"]);
}

/** The driver's own credentials, by the name that the chart expects. */
export function driverSecret({ accessKeyId, secretAccessKey }: S3Access): object {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "s3-secret", namespace: DRIVER_NAMESPACE },
    stringData: { access_key_id: accessKeyId, secret_access_key: secretAccessKey },
  };
}

function flagsOf(flag: string, values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).flatMap(([key, value]) => [flag, `${key}=${value}`]);
}

/** All that the pods of one part of the driver have logged: of two controllers, one has led. */
export function driverLog(cluster: Cluster, part: "controller" | "node"): Promise<string> {
  const selector = `app.kubernetes.io/component=${part}`;
  return cluster.kubectl(["logs", "-n", DRIVER_NAMESPACE, "-l", selector, "--tail=-1"]);
}

/** The driver's mounts as the node itself sees them. */
export function volumeMountsOf({ machine }: Cluster): MountEntry[] {
  const mounts = parseMountInfo(readFileSync(`/proc/${machine.pid}/mountinfo`, "utf8"));
  return mounts.filter(
    ({ type, mountPoint }) => type === "fuse.s3csi" && mountPoint.startsWith("/var/lib/kubelet/"),
  );
}

export interface VolumeOptions {
  readonly mountOptions?: readonly string[];
  readonly readOnly?: boolean;
  /** The Secret with the volume's own keys, in the namespace `default`. */
  readonly secret?: string;
  /** Further volumeAttributes. */
  readonly attributes?: Readonly<Record<string, string>>;
}

/** A PV for an existing bucket, and a claim bound to it. */
export function staticVolume(name: string, bucket: string, options: VolumeOptions = {}): object[] {
  const { mountOptions = [], readOnly = false, secret, attributes = {} } = options;
  const accessModes = [readOnly ? "ReadOnlyMany" : "ReadWriteMany"];
  const storage = "1Gi";
  return [
    {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name },
      spec: {
        accessModes,
        capacity: { storage },
        storageClassName: "",
        persistentVolumeReclaimPolicy: "Retain",
        claimRef: { namespace: "default", name },
        mountOptions,
        csi: {
          driver: "s3.csi.scality.com",
          volumeHandle: `${name}-handle`,
          ...keysOf({ ...attributes, bucketName: bucket }, secret),
        },
      },
    },
    {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name, namespace: "default" },
      spec: {
        accessModes,
        storageClassName: "",
        volumeName: name,
        resources: { requests: { storage } },
      },
    },
  ];
}

function keysOf(volumeAttributes: Record<string, string>, secret: string | undefined): object {
  if (secret === undefined) return { volumeAttributes };
  return {
    volumeAttributes: { ...volumeAttributes, authenticationSource: "secret" },
    nodePublishSecretRef: { name: secret, namespace: "default" },
  };
}

/** A workload with a shell that has the claim's volume at /data. */
export function workloadPod(
  name: string,
  claim: string,
  image: string,
  securityContext: object = {},
  readOnly = false,
): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default" },
    spec: {
      terminationGracePeriodSeconds: 1,
      securityContext,
      containers: [
        {
          name: "shell",
          image,
          imagePullPolicy: "Never",
          volumeMounts: [{ name: "data", mountPath: "/data" }],
        },
      ],
      volumes: [{ name: "data", persistentVolumeClaim: { claimName: claim, readOnly } }],
    },
  };
}

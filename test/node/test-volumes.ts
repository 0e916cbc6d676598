import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { untilFound } from "../../src/base/until-found.ts";
import type { DriverSettings } from "../../src/node/mount-spec.ts";
import type { PublishRequest } from "../../src/node/publish-request.ts";
import { Volumes } from "../../src/node/volumes.ts";
import type { VolumesOptions } from "../../src/node/volumes.ts";
import type { TestBucket } from "../engine/test-bucket.ts";
import { silentLog } from "./test-node.ts";
import type { TestNode } from "./test-node.ts";

/** A cluster that assigns every workload to the first Mountpoint Pod, once there is one. */
function viewOf({ view }: TestNode): VolumesOptions["view"] {
  const first = (signal: AbortSignal) =>
    untilFound(
      () => view.pods()[0],
      (look) => view.onPodChange(look),
      signal,
    );
  return {
    pods: () => view.pods(),
    isAssigned: () => view.pods().length > 0,
    heldBackWhy: () => view.heldBack,
    onAttachmentChange: (listener) => view.onPodChange(listener),
    async untilAssigned({ volumeId: volumeID, pvName }, signal) {
      const { name: pod } = await first(signal);
      const names = { nodeName: "n", persistentVolumeName: pvName, volumeID };
      const rest = { mountOptions: "", workloadFSGroup: "", mountpointS3PodAttachments: {} };
      return { attachment: "s3pa-1", spec: { ...names, ...rest }, pod };
    },
    untilScheduled: (_name, signal) => first(signal),
    untilMoved: (_claimant, _pod, signal) => never(signal),
    async untilLeaving(uid, signal) {
      if (!view.leaving.has(uid)) await never(signal);
    },
    attachmentsProblem: () => undefined,
    async followProblem(_name, told, signal) {
      told(view.problem);
      using _told = view.onPodChange(() => told(view.problem));
      await never(signal).catch(() => {});
    },
    finishedPods: () => view.finished.values(),
    onPodFinished: (listener) => view.onPodFinished(listener),
  };
}

/** Other settings of the driver may replace those of the bucket. */
export function volumesOn(
  node: TestNode,
  bucket: TestBucket,
  change: Partial<DriverSettings & Pick<VolumesOptions, "times">> = {},
): Volumes {
  const { endpoint, accessKeyId, secretAccessKey } = bucket.access;
  const keys = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey };
  const env = { ...keys, AWS_ENDPOINT_URL: endpoint };
  const { sources } = node;
  const settings = { env, userAgent: "test", ...change };
  return new Volumes({ view: viewOf(node), sources, ...settings, log: silentLog });
}

/** What the kubelet asks for, and the directory that it makes before. */
export function publishRequestFor(
  node: TestNode,
  bucket: TestBucket,
  workload: string,
  change: Partial<PublishRequest> = {},
): PublishRequest {
  const parent = join(node.kubeletPath, "pods", workload, "volumes/kubernetes.io~csi/pv-1");
  const target = { path: join(parent, "mount"), podUid: workload, pvName: "pv-1" };
  mkdirSync(parent, { recursive: true });
  return {
    volumeId: "vol-1",
    target,
    workloadUid: workload,
    mountOptions: ["allow-other"],
    readOnly: false,
    isReadOnlyVolume: false,
    context: {
      bucketName: bucket.name,
      authenticationSource: "driver",
      prefix: "",
      region: undefined,
    },
    secrets: {},
    ...change,
  };
}

function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

import { Failure } from "../base/failure.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { PODS } from "../kube/resource.ts";
import {
  ATTACHMENT_API_VERSION,
  ATTACHMENT_KIND,
  ATTACHMENTS,
  attachmentSpecOf,
} from "../volume/attachment.ts";
import type { MountpointS3PodAttachment } from "../volume/attachment.ts";
import { ANNOTATION } from "../volume/names.ts";
import type { Cluster } from "./cluster.ts";
import { attachmentOf, mountpointPodOf } from "./facts.ts";
import { mountpointPodFor } from "./mountpoint-pod.ts";
import type { MountpointPodSettings } from "./mountpoint-pod.ts";

/** The port on the real API server. */
export function kubeCluster(client: KubeClient, settings: MountpointPodSettings): Cluster {
  const { namespace } = settings;
  return {
    async findAttachment(name, signal) {
      const found = await client.find(ATTACHMENTS, { name }, signal);
      return found === undefined ? undefined : attachmentOf(found);
    },
    async findPod(name, signal) {
      const found = await client.find(PODS, { namespace, name }, signal);
      return found === undefined ? undefined : mountpointPodOf(found);
    },
    async liveUids(nodeName, signal) {
      const running = "status.phase!=Succeeded,status.phase!=Failed";
      const fieldSelector = `spec.nodeName=${nodeName},${running}`;
      const { items } = await client.list(PODS, { fieldSelector }, signal);
      return new Set(items.map((pod) => pod.metadata?.uid ?? ""));
    },
    async createPod(pod, attachment, key, signal) {
      const body = mountpointPodFor(pod, attachment, key, settings);
      await unless("conflict", client.create(PODS, body, signal)); // ours, from a lost answer
    },
    async markPod({ name, uid }, signal) {
      const metadata = { uid, annotations: { [ANNOTATION.needsUnmount]: "true" } };
      await unless("absent", client.patch(PODS, { namespace, name }, { metadata }, signal));
    },
    async deletePod({ name, uid }, signal) {
      await unless("absent", client.delete(PODS, { namespace, name }, { uid }, signal));
    },
    async createAttachment(name, key, attachments, signal) {
      const object: MountpointS3PodAttachment = {
        apiVersion: ATTACHMENT_API_VERSION,
        kind: ATTACHMENT_KIND,
        metadata: { name },
        spec: attachmentSpecOf(key, attachments),
      };
      await conflictIsStale(client.create(ATTACHMENTS, object, signal));
    },
    async updateAttachment({ name, resourceVersion }, attachments, signal) {
      const patch = [
        // Sets what is already there, so that the server refuses when it no longer is.
        { op: "replace", path: "/metadata/resourceVersion", value: resourceVersion },
        { op: "replace", path: "/spec/mountpointS3PodAttachments", value: attachments },
      ] as const;
      await client.patch(ATTACHMENTS, { name }, patch, signal);
    },
    async deleteAttachment({ name, uid, resourceVersion }, signal) {
      const preconditions = { uid, resourceVersion };
      await unless("absent", client.delete(ATTACHMENTS, { name }, preconditions, signal));
    },
  };
}

/** A Failure of this kind says that the work is done already. */
async function unless(done: Failure["kind"], work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Failure) || error.kind !== done) throw error;
  }
}

async function conflictIsStale(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Failure) || error.kind !== "conflict") throw error;
    throw new Failure("stale", error.message, error);
  }
}

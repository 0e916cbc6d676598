import { Failure } from "../base/failure.ts";
import { unless } from "../base/unless.ts";
import type { JsonPatch, KubeClient } from "../kube/kube-client.ts";
import { PODS } from "../kube/resource.ts";
import type { Pod } from "../kube/resource.ts";
import {
  ATTACHMENT_API_VERSION,
  ATTACHMENT_KIND,
  ATTACHMENTS,
  attachmentSpecOf,
} from "../volume/attachment.ts";
import type { MountpointS3PodAttachment } from "../volume/attachment.ts";
import { ANNOTATION } from "../volume/names.ts";
import type { Cluster } from "./cluster.ts";
import { attachmentOf, isForeignMountpointPod, mountpointPodOf } from "./facts.ts";
import { mountpointPodFor, podSpecFor, settingsHashOf } from "./mountpoint-pod.ts";
import type { MountpointPodSettings } from "./mountpoint-pod.ts";
import type { PodOwner } from "./pod-owner.ts";

/** Who hears what the server made of our writes: sooner than the watches tell. */
export interface Written {
  readonly pod: (pod: Pod) => void;
  readonly attachment: (attachment: MountpointS3PodAttachment) => void;
}

/** The port on the real API server. */
export function kubeCluster(
  client: KubeClient,
  settings: MountpointPodSettings,
  owner: Pick<PodOwner, "current">,
  written: Written,
): Cluster {
  const { namespace } = settings;
  return {
    async findAttachment(name, signal) {
      const found = await client.find(ATTACHMENTS, { name }, signal);
      return found === undefined ? undefined : attachmentOf(found);
    },
    async findPod(name, signal) {
      const found = await client.find(PODS, { namespace, name }, signal);
      if (found === undefined) return undefined;
      return isForeignMountpointPod(found) ? "foreign" : mountpointPodOf(found);
    },
    async liveUids(nodeName, signal) {
      const running = "status.phase!=Succeeded,status.phase!=Failed";
      const fieldSelector = `spec.nodeName=${nodeName},${running}`;
      const { items } = await client.list(PODS, { fieldSelector }, signal);
      return new Set(items.map((pod) => pod.metadata?.uid ?? ""));
    },
    settingsHashFor(mountId, origin) {
      try {
        return settingsHashOf(podSpecFor(mountId, origin, settings));
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        return ""; // a volume that was right for an older release
      }
    },
    async createPod(pod, origin, signal) {
      const body = mountpointPodFor(pod, origin, settings, owner.current);
      try {
        written.pod(await client.create(PODS, body, signal));
      } catch (error) {
        if (!(error instanceof Failure) || error.kind !== "conflict") throw error;
        const found = await this.findPod(pod.name, signal);
        const { mountId, attachment } = typeof found === "object" ? found : {};
        if (mountId === pod.mountId && attachment === origin.attachment) return;
        throw new Failure("stale", `Mountpoint Pod ${pod.name} serves another mount`, error);
      }
    },
    async markPod({ name, uid }, signal) {
      const since = { [ANNOTATION.needsUnmountSince]: new Date().toISOString() };
      const metadata = { uid, annotations: { [ANNOTATION.needsUnmount]: "true", ...since } };
      const marked = client.patch(PODS, { namespace, name }, { metadata }, signal);
      await unless("absent", marked.then(written.pod));
    },
    async deletePod({ name, uid }, signal) {
      await unless("absent", client.delete(PODS, { namespace, name }, { uid }, signal));
    },
    async createAttachment(name, key, lists, signal) {
      const object: MountpointS3PodAttachment = {
        apiVersion: ATTACHMENT_API_VERSION,
        kind: ATTACHMENT_KIND,
        metadata: { name },
        spec: attachmentSpecOf(key, lists),
      };
      await conflictIsStale(client.create(ATTACHMENTS, object, signal).then(written.attachment));
    },
    async updateAttachment({ name, resourceVersion, spec }, lists, signal) {
      const path = "/spec/mountIDs";
      const patch: JsonPatch = [
        // Sets what is already there, so that the server refuses when it no longer is.
        { op: "replace", path: "/metadata/resourceVersion", value: resourceVersion },
        { op: "replace", path: "/spec/mountpointS3PodAttachments", value: lists.attachments },
        ...(Object.keys(lists.mountIds).length > 0
          ? [{ op: "add", path, value: lists.mountIds } as const]
          : spec.mountIDs === undefined
            ? []
            : [{ op: "remove", path } as const]),
      ];
      written.attachment(await client.patch(ATTACHMENTS, { name }, patch, signal));
    },
    async writeStatus({ attachment: { name, uid }, status, stale }, signal) {
      // A merge patch: null removes, and what else the node service says is left alone.
      const mountpointPods = Object.fromEntries(stale.map((pod) => [pod, null]));
      const removed = stale.length === 0 ? {} : { mountpointPods };
      const patch = { metadata: { uid }, status: { ...status, ...removed } };
      const said = client.patchStatus(ATTACHMENTS, { name }, patch, signal);
      await unless("absent", said.then(written.attachment));
    },
    async deleteAttachment({ name, uid, resourceVersion }, signal) {
      const preconditions = { uid, resourceVersion };
      await unless("absent", client.delete(ATTACHMENTS, { name }, preconditions, signal));
    },
  };
}

async function conflictIsStale(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Failure) || error.kind !== "conflict") throw error;
    throw new Failure("stale", error.message, error);
  }
}

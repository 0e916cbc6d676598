import { unless } from "../base/unless.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { PODS } from "../kube/resource.ts";
import type { HeadroomCluster } from "./headroom-keeper.ts";
import { headroomPodFor, ungatedOf } from "./headroom.ts";
import type { HeadroomSettings } from "./headroom.ts";
import type { PodOwner } from "./pod-owner.ts";

/** The port on the real API server. */
export function kubeHeadroom(
  client: KubeClient,
  settings: HeadroomSettings,
  owner: Pick<PodOwner, "current">,
): HeadroomCluster {
  return {
    async hasWorkload({ workloadPlace, workloadUid }, signal) {
      const pod = await client.find(PODS, workloadPlace, signal);
      return pod?.metadata?.uid === workloadUid;
    },
    async createHeadroom(workload, volume, signal) {
      const pod = headroomPodFor(workload, volume, settings, owner.current);
      await unless("conflict", client.create(PODS, pod, signal));
    },
    async deleteHeadroom({ name, uid }, signal) {
      const { namespace } = settings;
      await unless("absent", client.delete(PODS, { namespace, name }, { uid }, signal));
    },
    async liftGate({ namespace, name, uid }, signal) {
      const pod = await client.find(PODS, { namespace, name }, signal);
      const patch = pod?.metadata?.uid === uid ? ungatedOf(pod) : undefined;
      if (patch === undefined) return false;
      await unless("absent", client.patch(PODS, { namespace, name }, patch, signal));
      return true;
    },
  };
}

import { Failure } from "../base/failure.ts";
import { unless } from "../base/unless.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { PVCS, PVS, SECRETS } from "../kube/resource.ts";
import type { Cluster } from "./cluster.ts";
import { CLAIM_FINALIZER, VOLUME_FINALIZER, volumeOf } from "./facts.ts";
import { NOTE_ANNOTATION, noteText } from "./note.ts";

/** The port on the real API server. */
export function kubeCluster(client: KubeClient): Cluster {
  return {
    async findVolume(name, signal) {
      const found = await client.find(PVS, { name }, signal);
      return found === undefined ? undefined : volumeOf(found);
    },
    async hasVolume(name, signal) {
      return (await client.find(PVS, { name }, signal)) !== undefined;
    },
    async readSecret(ref, signal) {
      const found = await client.find(SECRETS, ref, signal);
      return found === undefined ? undefined : decoded(found.data ?? {});
    },
    async addClaimFinalizer({ namespace, name, uid, resourceVersion }, note, signal) {
      const annotations = { [NOTE_ANNOTATION]: noteText(note) };
      const along = { uid, resourceVersion, annotations };
      await client.addFinalizer(PVCS, { namespace, name }, CLAIM_FINALIZER, along, signal);
    },
    async removeClaimFinalizer({ namespace, name, uid }, signal) {
      const place = { namespace, name };
      const along = { uid, annotations: { [NOTE_ANNOTATION]: null } };
      await unless("absent", client.removeFinalizer(PVCS, place, CLAIM_FINALIZER, along, signal));
    },
    async createVolume(volume, signal) {
      try {
        await client.create(PVS, volume, signal);
      } catch (error) {
        // Its name holds the claim's UID: what is there is ours, from a lost answer.
        if (!(error instanceof Failure) || error.kind !== "conflict") throw error;
      }
    },
    async protectVolume({ name, uid }, signal) {
      await unless("absent", client.addFinalizer(PVS, { name }, VOLUME_FINALIZER, { uid }, signal));
    },
    async unprotectVolume({ name, uid }, signal) {
      await unless(
        "absent",
        client.removeFinalizer(PVS, { name }, VOLUME_FINALIZER, { uid }, signal),
      );
    },
    async deleteVolume({ name, uid }, signal) {
      await unless("absent", client.delete(PVS, { name }, { uid }, signal));
    },
  };
}

function decoded(data: Readonly<Record<string, string>>): Record<string, string> {
  const texts = Object.entries(data).map(([key, value]) => {
    return [key, Buffer.from(value, "base64").toString("utf8")] as const;
  });
  return Object.fromEntries(texts);
}

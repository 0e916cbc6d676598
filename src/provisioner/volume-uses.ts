import { Failure } from "../base/failure.ts";
import { NextRun } from "../base/next-run.ts";
import { within } from "../base/within.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { PVS } from "../kube/resource.ts";
import type { PersistentVolume } from "../kube/resource.ts";
import { prefixIn } from "../volume/mount-options.ts";
import { DRIVER_NAME } from "../volume/names.ts";
import type { FindUses, VolumeUse } from "../volume/volume-use.ts";

const PAGE_SIZE = 500;
const LIST_WITHIN_MS = 30_000;

/**
 * The PVs of the cluster from the store: a deletion must not rely on a cache that may be old. While
 * many volumes are deleted at once, they share each list.
 */
export function volumeUses(client: KubeClient): FindUses {
  const list = new NextRun(() => listUses(client, AbortSignal.timeout(LIST_WITHIN_MS)));
  return (signal) => within(list.result(), signal, late);
}

async function listUses(client: KubeClient, signal: AbortSignal): Promise<readonly VolumeUse[]> {
  const uses: VolumeUse[] = [];
  let place: { readonly continue?: string } = {};
  for (;;) {
    const page = await client.list(PVS, { limit: PAGE_SIZE, ...place }, signal);
    for (const volume of page.items) {
      const use = useOf(volume);
      if (use !== undefined) uses.push(use);
    }
    const { continue: next = "" } = page.metadata;
    if (next === "") return uses;
    place = { continue: next };
  }
}

/** A PV of another driver: undefined. */
export function useOf({ metadata, spec, status }: PersistentVolume): VolumeUse | undefined {
  if (spec?.csi?.driver !== DRIVER_NAME) return undefined;
  const { volumeHandle, volumeAttributes = {} } = spec.csi;
  const { bucketName = "", prefix = "" } = volumeAttributes;
  const isTerminating = metadata?.deletionTimestamp !== undefined;
  const phase = status?.phase ?? "";
  return {
    pv: metadata?.name ?? "",
    handle: volumeHandle,
    bucket: bucketName,
    prefix: prefix === "" ? prefixIn(spec.mountOptions ?? []) : prefix,
    // A bound PV that is terminating is still mounted: it waits for its claim.
    isReleased: phase === "Released" || (isTerminating && phase !== "Bound"),
  };
}

function late(reason: unknown): Failure {
  return new Failure("timeout", "the list of PVs did not come in time", reason);
}

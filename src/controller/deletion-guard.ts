import { isHandleOf, isReferenceHandle, isRetained } from "../volume/volume-handle.ts";
import type { VolumePlace } from "../volume/volume-handle.ts";
import { isUseOf } from "../volume/volume-use.ts";
import type { FindUses, VolumeUse } from "../volume/volume-use.ts";

/** The answer to a request to delete a volume. */
export type Permission =
  | { readonly may: "delete" }
  /** Nobody vouches for it: what is empty may go. */
  | { readonly may: "delete-empty" }
  | { readonly may: "nothing"; readonly why: string };

export interface Deletion {
  readonly volumeId: string;
  readonly place: VolumePlace;
  /** The PV's name; a CSI client does not tell it. */
  readonly pv: string | undefined;
}

/**
 * Anybody who may create PVs can write any handle into one, and a saved PV under a new name has the
 * handle of the first. So a volume is deleted for the PV it was made for, and only if no other PV
 * of the cluster uses it.
 */
export async function permissionFor(
  deletion: Deletion,
  findUses: FindUses | undefined,
  signal: AbortSignal,
): Promise<Permission> {
  const { volumeId, place, pv } = deletion;
  if (pv !== undefined && !isVolumeOf(volumeId, pv)) return nothing(volumeId, notOf(pv));
  if (isRetained(place)) return { may: "delete" }; // keeps its objects all the same
  if (findUses === undefined) return { may: pv === undefined ? "delete-empty" : "delete" };
  const uses = (await findUses(signal)).filter((use) => isUseOf(use, place));
  if (pv === undefined) return permissionOfClient(volumeId, uses);
  const others = uses.filter((use) => use.pv !== pv);
  return others.length === 0 ? { may: "delete" } : nothing(volumeId, usedBy(others));
}

/** Of a client that tells the handle alone: the PV that it means must be found. */
function permissionOfClient(volumeId: string, uses: readonly VolumeUse[]): Permission {
  const [use] = uses;
  if (use === undefined) return { may: "delete-empty" };
  if (uses.length > 1 || use.handle !== volumeId) return nothing(volumeId, usedBy(uses));
  if (!use.isReleased) return nothing(volumeId, `is in use by PV ${use.pv}, which is not Released`);
  return isVolumeOf(volumeId, use.pv) ? { may: "delete" } : nothing(volumeId, notOf(use.pv));
}

/** The reference driver's handles are random: they say nothing about the PV. */
function isVolumeOf(volumeId: string, pv: string): boolean {
  return isReferenceHandle(volumeId) || isHandleOf(volumeId, pv);
}

function notOf(pv: string): string {
  return `is not that of ${pv}`;
}

const NAMES_MAX = 3;

function usedBy(uses: readonly VolumeUse[]): string {
  const names = uses.slice(0, NAMES_MAX).map((use) => use.pv);
  const others = uses.length > NAMES_MAX ? ` and ${uses.length - NAMES_MAX} more` : "";
  return `is in use by PV ${names.join(", PV ")}${others}`;
}

function nothing(volumeId: string, why: string): Permission {
  return { may: "nothing", why: `nothing was deleted: volume handle ${volumeId} ${why}` };
}

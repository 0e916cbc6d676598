import type { Claim, Class, Volume } from "./facts.ts";
import { volumeNameOf } from "./facts.ts";

/** What to do about a claim. */
export type ClaimStep =
  | "wait" // nothing, or not yet: the next change wakes us
  | "provision"
  | "let-go" // a PV tells of the bucket now: the claim need not be held any longer
  | "discard"; // nobody will ever use the bucket that may have been made

/** What to do about a volume. */
export type VolumeStep = "wait" | "protect" | "unprotect" | "delete";

/** Level-based and pure: one picture, one answer, whatever event woke us. */
export function decideClaim(
  claim: Claim,
  storageClass: Class | undefined,
  volume: Volume | undefined,
): ClaimStep {
  if (claim.isHeld) return decideHeld(claim, volume);
  if (claim.isTerminating || claim.volumeName !== "" || volume !== undefined) return "wait";
  if (storageClass === undefined) return "wait"; // none of ours, or not there: it wakes us
  if (storageClass.waitsForConsumer && claim.selectedNode === "") return "wait";
  return "provision";
}

function decideHeld(claim: Claim, volume: Volume | undefined): ClaimStep {
  if (volume !== undefined) {
    // Until it is bound the binder writes the claim too: leave it alone.
    const isOver = claim.isTerminating || (claim.isBound && claim.volumeName !== "");
    return isOver ? "let-go" : "wait";
  }
  const boundElsewhere = claim.volumeName !== "" && claim.volumeName !== volumeNameOf(claim);
  if (claim.isTerminating || boundElsewhere) return "discard";
  // Bound to a PV that is gone again: whoever deleted it has settled what was behind it.
  return claim.isBound ? "let-go" : "provision";
}

export function decideVolume(volume: Volume): VolumeStep {
  const { phase, reclaimPolicy, isTerminating, hasFinalizer } = volume;
  if (reclaimPolicy !== "Delete") return hasFinalizer ? "unprotect" : "wait";
  // Terminating without the finalizer: somebody has taken over, or it is done.
  if (phase === "Released" && (hasFinalizer || !isTerminating)) return "delete";
  return phase === "Bound" && !isTerminating && !hasFinalizer ? "protect" : "wait";
}

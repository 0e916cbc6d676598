import type { SegmentRecord } from "../journal/record.ts";
import type { SavedUpload } from "../journal/saved-state.ts";

interface SavedPart extends SegmentRecord {
  /** The part was being sent. Else it may have been, or more was to be appended to it. */
  readonly wasSent: boolean;
}

/** Parts whose bytes an earlier engine has left in the spool, in their order. */
export function savedParts({ segments, sent, creating }: SavedUpload): SavedPart[] {
  const inOrder = [...segments.values()].toSorted((left, right) => left.part - right.part);
  const last = Math.max(0, ...sent.keys(), ...segments.keys());
  // Parts may be small: one that was sent early, for want of memory, is followed by others in the
  // spool or in S3. A first part without others has begun the upload.
  return inOrder.map((record) => {
    const hasBegun = record.part === 1 && creating !== undefined;
    return { ...record, wasSent: record.part < last || hasBegun };
  });
}

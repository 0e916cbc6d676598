import type { SentRecord } from "../journal/record.ts";
import { PARTS_WITH_WRITERS } from "../journal/saved-state.ts";
import type { SummedSegment } from "./summed-segment.ts";

/** A WRITE request that an earlier engine received and did not answer. */
export interface ResentWrite {
  readonly unique?: string | undefined;
  readonly offsetBytes: number;
  readonly data: Uint8Array;
}

/** A file's acknowledged bytes: parts have numbers from 1 on. */
export interface TakenParts {
  readonly sizeBytes: number;
  /** Parts whose bytes are in the spool. */
  readonly held: ReadonlyMap<number, SummedSegment>;
  /** Parts that S3 has. */
  readonly sent: ReadonlyMap<number, SentRecord>;
}

/**
 * How many bytes of the request are in the file already. The offset alone does not tell: a write
 * behind the end of the file may never have been seen. A request is recognised by its `unique`, and
 * where an older release has entered no writers, by its bytes.
 */
export function takenBefore(request: ResentWrite, parts: TakenParts): number {
  const { unique, offsetBytes, data } = request;
  const takenBytes = Math.min(parts.sizeBytes - offsetBytes, data.length);
  if (takenBytes <= 0) return 0;
  if (unique !== undefined && hasWriter(parts, unique)) return takenBytes;
  return holds(parts, offsetBytes, data.subarray(0, takenBytes)) ? takenBytes : 0;
}

function hasWriter({ held, sent }: TakenParts, unique: string): boolean {
  const isHeld = held.values().some(({ segment }) => segment.writers.includes(unique));
  return isHeld || sent.values().some(({ by }) => by?.includes(unique) === true);
}

function holds({ held, sent }: TakenParts, offsetBytes: number, data: Uint8Array): boolean {
  const lastSent = Math.max(0, ...sent.keys());
  const end = offsetBytes + data.length;
  let start = 0;
  for (let part = 1; start < end; part++) {
    const segment = held.get(part);
    const record = sent.get(part);
    const sizeBytes = segment?.filledBytes ?? record?.size;
    if (sizeBytes === undefined) return false;
    const from = Math.max(start, offsetBytes);
    const to = Math.min(start + sizeBytes, end);
    if (from < to && segment !== undefined) {
      if (segment.segment.knowsWriters) return false;
      const there = segment.bytes.subarray(from - start, to - start);
      if (!there.equals(data.subarray(from - offsetBytes, to - offsetBytes))) return false;
    } else if (from < to) {
      // Bytes that S3 has can't be compared: an older release goes by the offset.
      const isUnknown = record?.by === undefined && part > lastSent - PARTS_WITH_WRITERS;
      if (!isUnknown) return false;
    }
    start += sizeBytes;
  }
  return true;
}

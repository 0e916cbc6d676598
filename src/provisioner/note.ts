import * as z from "zod";
import { DRIVER_NAME } from "../volume/names.ts";
import { isHandleOf } from "../volume/volume-handle.ts";
import { DNS_LABEL, DNS_NAME } from "./secret-ref.ts";
import type { SecretRef } from "./secret-ref.ts";

/**
 * On a claim, from before S3 is asked until a PV tells the same: where its volume is being made and
 * whose keys make it. By then its class may be gone, or another one under the same name.
 */
export interface Note {
  /** The handle that the volume will have. */
  readonly volume: string;
  /** Undefined: the driver's own keys. */
  readonly secret: SecretRef | undefined;
}

export const NOTE_ANNOTATION = `${DRIVER_NAME}/provisioning`;

const Text = z.object({
  volume: z.string(),
  secret: z
    .object({ namespace: z.string().regex(DNS_LABEL), name: z.string().regex(DNS_NAME) })
    .optional(),
});

export function noteText({ volume, secret }: Note): string {
  return JSON.stringify({ volume, secret });
}

/**
 * Whoever may edit the claim may edit the note. It is believed as far as it can do no harm: in
 * words that Kubernetes allows, about a place that carries the UUID of this very volume.
 */
export function parseNote(text: string | undefined, volumeName: string): Note | undefined {
  const { data } = Text.safeParse(jsonOf(text ?? ""));
  if (data === undefined || !isHandleOf(data.volume, volumeName)) return undefined;
  return { volume: data.volume, secret: data.secret };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

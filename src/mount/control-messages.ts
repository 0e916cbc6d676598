import * as z from "zod";
import type { FailureKind } from "../base/failure.ts";

/** What the mounter tells its engine over the ipc channel. */
export const ControlMessage = z.discriminatedUnion("do", [
  z.strictObject({
    do: z.literal("start"),
    slotsFd: z.int().min(0),
    credentials: z
      .strictObject({
        accessKeyId: z.string().min(1),
        secretAccessKey: z.string().min(1),
        sessionToken: z.string().min(1).optional(),
      })
      .nullable(),
  }),
  z.strictObject({ do: z.literal("finish") }),
]);
export type ControlMessage = z.infer<typeof ControlMessage>;

/** What the engine tells its mounter. */
export type EngineMessage =
  | { readonly did: "ready" }
  | { readonly did: "failed"; readonly kind: FailureKind; readonly message: string }
  | { readonly did: "finished" };

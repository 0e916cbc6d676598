import * as z from "zod";
import type { FailureKind } from "../base/failure.ts";

/** What the mounter tells its engine over the ipc channel. */
export const ControlMessage = z.discriminatedUnion("do", [
  z.strictObject({
    do: z.literal("start"),
    fuseFd: z.int().min(0),
    slotsFd: z.int().min(0),
    journalFd: z.int().min(0),
    spoolFd: z.int().min(0),
    /** An earlier engine has served this connection: go on where it ended. */
    resume: z.boolean(),
    mountedByUs: z.boolean(),
    credentials: z.union([
      z.strictObject({
        accessKeyId: z.string().min(1),
        secretAccessKey: z.string().min(1),
        sessionToken: z.string().min(1).optional(),
      }),
      z.literal("find"),
      z.null(),
    ]),
  }),
  /** Is it still there? */
  z.strictObject({ do: z.literal("ask") }),
  z.strictObject({ do: z.literal("finish") }),
]);
export type ControlMessage = z.infer<typeof ControlMessage>;

/** What the engine tells its mounter. */
export type EngineMessage =
  | { readonly did: "ready" | "alive" }
  | { readonly did: "failed"; readonly kind: FailureKind; readonly message: string }
  | { readonly did: "finished" };

import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";

export interface Start {
  readonly do: "start";
  readonly slotsFd: number;
  /** Null: requests are not signed. */
  readonly credentials: {
    readonly accessKeyId: string;
    readonly secretAccessKey: string;
    readonly sessionToken?: string | undefined;
  } | null;
}

/** What the mounter tells its engine over the ipc channel. */
export type ControlMessage = Start | { readonly do: "finish" };

/** What the engine tells its mounter. */
export type EngineMessage =
  | { readonly did: "ready" }
  | { readonly did: "failed"; readonly kind: FailureKind; readonly message: string }
  | { readonly did: "finished" };

/**
 * Our own parent's words, checked by hand: applications wait while an engine starts, and loading
 * zod for two messages would be a third of that time.
 */
export function readControlMessage(input: unknown): ControlMessage {
  const message = recordOf("the message", input);
  if (message["do"] === "finish") return { do: "finish" };
  if (message["do"] !== "start") throw wrong("do", '"start" or "finish"');
  const { slotsFd, credentials } = message;
  if (typeof slotsFd !== "number" || !Number.isSafeInteger(slotsFd) || slotsFd < 0) {
    throw wrong("slotsFd", "a descriptor");
  }
  if (credentials === null) return { do: "start", slotsFd, credentials };
  const { accessKeyId, secretAccessKey, sessionToken } = recordOf("credentials", credentials);
  return {
    do: "start",
    slotsFd,
    credentials: {
      accessKeyId: textOf("credentials.accessKeyId", accessKeyId),
      secretAccessKey: textOf("credentials.secretAccessKey", secretAccessKey),
      sessionToken:
        sessionToken === undefined ? undefined : textOf("credentials.sessionToken", sessionToken),
    },
  };
}

function recordOf(what: string, input: unknown): Readonly<Record<string, unknown>> {
  if (typeof input !== "object" || input === null) throw wrong(what, "an object");
  return { ...input };
}

function textOf(what: string, input: unknown): string {
  if (typeof input !== "string" || input === "") throw wrong(what, "a text that is not empty");
  return input;
}

/** Without the value: it may be a secret. */
function wrong(what: string, right: string): Failure {
  return new Failure("invalid", `from the mounter: ${what} must be ${right}`);
}

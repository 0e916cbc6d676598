import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";

export interface Start {
  readonly do: "start";
  readonly fuseFd: number;
  readonly slotsFd: number;
  readonly journalFd: number;
  readonly spoolFd: number;
  /** An earlier engine has served this connection: go on where it ended. */
  readonly resume: boolean;
  /** Not mounted yet: say when it should be. */
  readonly waits: boolean;
  readonly mountedByUs: boolean;
  /** Null: requests are not signed. `find`: the engine looks where users keep them. */
  readonly credentials: Keys | null | "find";
}

interface Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

/** What a supervisor tells its engine over the ipc channel. */
export type ControlMessage =
  | Start
  /** It is mounted now. */
  | { readonly do: "serve" }
  /** Other keys from now on. */
  | { readonly do: "rekey"; readonly credentials: Start["credentials"] }
  /** Is it still there? */
  | { readonly do: "ask" }
  | { readonly do: "finish" };

/** What the engine tells its supervisor. */
export type EngineMessage =
  | { readonly did: "opened" | "ready" | "alive" }
  | { readonly did: "failed"; readonly kind: FailureKind; readonly message: string }
  | { readonly did: "finished" };

/**
 * Our own parent's words, checked by hand: applications wait while an engine starts, and loading
 * zod for two messages would be a third of that time.
 */
export function readControlMessage(input: unknown): ControlMessage {
  const message = recordOf("the message", input);
  const verb = message["do"];
  if (verb === "serve" || verb === "ask" || verb === "finish") return { do: verb };
  if (verb === "rekey") return { do: verb, credentials: credentialsOf(message) };
  if (verb !== "start") throw wrong("do", '"start", "serve", "rekey", "ask" or "finish"');
  const { resume, waits, mountedByUs } = message;
  const fds = {
    fuseFd: descriptorOf("fuseFd", message),
    slotsFd: descriptorOf("slotsFd", message),
    journalFd: descriptorOf("journalFd", message),
    spoolFd: descriptorOf("spoolFd", message),
  };
  if (typeof resume !== "boolean") throw wrong("resume", "true or false");
  if (typeof waits !== "boolean") throw wrong("waits", "true or false");
  if (typeof mountedByUs !== "boolean") throw wrong("mountedByUs", "true or false");
  const start = { do: "start", ...fds, resume, waits, mountedByUs } as const;
  return { ...start, credentials: credentialsOf(message) };
}

function credentialsOf({ credentials }: Readonly<Record<string, unknown>>): Start["credentials"] {
  const isWord = credentials === null || credentials === "find";
  return isWord ? credentials : readKeys(credentials);
}

function readKeys(input: unknown): Keys {
  const { accessKeyId, secretAccessKey, sessionToken } = recordOf("credentials", input);
  return {
    accessKeyId: textOf("credentials.accessKeyId", accessKeyId),
    secretAccessKey: textOf("credentials.secretAccessKey", secretAccessKey),
    sessionToken:
      sessionToken === undefined ? undefined : textOf("credentials.sessionToken", sessionToken),
  };
}

function descriptorOf(name: string, message: Readonly<Record<string, unknown>>): number {
  const fd = message[name];
  if (typeof fd === "number" && Number.isSafeInteger(fd) && fd >= 0) return fd;
  throw wrong(name, "a descriptor");
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

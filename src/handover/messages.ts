import { FAILURE_KINDS, Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import { keys } from "../base/keys.ts";
import type { Keys } from "../base/keys.ts";
import { parseJson } from "../base/parse-json.ts";
import {
  choice,
  flag,
  list,
  number,
  oneOf,
  optional,
  orNull,
  record,
  table,
  textThat,
} from "../base/shape.ts";
import type { Shape } from "../base/shape.ts";

/** The socket's name in the directory that node service and Mountpoint Pod share. */
export const SOCKET_NAME = "mount.sock";
/**
 * A message is one line of JSON and fits into a socket's buffer: it is sent whole or not at all.
 */
export const MESSAGE_BYTES_MAX = 64 * 1024;

const REASON_CHARACTERS_MAX = 4096;

export type Credentials = Keys;

/** What a Mountpoint Pod serves, for as many engines and pods as it takes. */
export interface MountSpec {
  readonly bucket: string;
  /** Options of the engine, one word each: whatever is no option is refused by the engine. */
  readonly args: readonly string[];
  /** Settings of the engine alone: nothing here may change how its process is started. */
  readonly env: Readonly<Record<string, string>>;
  /** Over the socket only: no environment, no pod spec ever holds them, and no file on a disk. */
  readonly credentials: Credentials | null;
  /** Absent for our own, which mounters of releases before this word serve too. */
  readonly engine?: "mount-s3" | undefined;
}

export interface MountRequest extends MountSpec {
  readonly do: "mount";
  /** An engine in another container has served this mount: go on where it ended. */
  readonly resume: boolean;
}

/** Node service to mounter. */
export type HandoverRequest =
  | MountRequest
  /** Other keys for the same mount: from now on, without a pause. */
  | { readonly do: "rekey"; readonly credentials: Credentials | null }
  /**
   * What is served here? It comes with a socket, into which copies of the descriptors go; of
   * mount-s3's there are none.
   */
  | { readonly do: "share" }
  /** Complete what was acknowledged, then end: unmounting alone does not end a connection. */
  | { readonly do: "finish" };

/** Mounter to node service, when it was asked. */
export type HandoverAnswer =
  | { readonly did: "ready" | "rekeyed" | "finished" }
  /** Null: this container serves nothing, and there is no descriptor to share. */
  | { readonly did: "shared"; readonly mount: MountSpec | null }
  | { readonly did: "failed"; readonly kind: FailureKind; readonly message: string };

/** Mounter to node service, unasked: how the engine is. */
export type HandoverNote =
  | { readonly note: "lost" | "given-up"; readonly cause: string }
  | { readonly note: "recovered"; readonly cause: string; readonly pauseMs: number };

/** A word of a command line or environment: the kernel ends it at the first NUL. */
const word = textThat((text) => !text.includes("\0"), "a text without NUL");
const reason = textThat(
  (text) => text.length <= REASON_CHARACTERS_MAX,
  `a text of at most ${REASON_CHARACTERS_MAX} characters`,
);

const SPEC = {
  bucket: textThat((text) => text !== "" && !text.includes("\0"), "a bucket's name"),
  args: list(word),
  env: table((name) => /^AWS_[A-Z_]+$/.test(name), word),
  credentials: orNull(keys),
  engine: optional(oneOf(["mount-s3"])),
};

const request = choice<HandoverRequest>("do", {
  mount: record<MountRequest>({ ...SPEC, do: oneOf(["mount"]), resume: flag }),
  rekey: record({ do: oneOf(["rekey"]), credentials: orNull(keys) }),
  share: record({ do: oneOf(["share"]) }),
  finish: record({ do: oneOf(["finish"]) }),
});

const answer = choice<HandoverAnswer>("did", {
  ready: record({ did: oneOf(["ready"]) }),
  rekeyed: record({ did: oneOf(["rekeyed"]) }),
  finished: record({ did: oneOf(["finished"]) }),
  shared: record({ did: oneOf(["shared"]), mount: orNull(record<MountSpec>(SPEC)) }),
  failed: record({ did: oneOf(["failed"]), kind: oneOf(FAILURE_KINDS), message: reason }),
});

const note = choice<HandoverNote>("note", {
  lost: record({ note: oneOf(["lost"]), cause: reason }),
  recovered: record({ note: oneOf(["recovered"]), cause: reason, pauseMs: number }),
  "given-up": record({ note: oneOf(["given-up"]), cause: reason }),
});

/** A failure as it travels: its reason is for people, and cut where it would not fit. */
export function failedAnswer({ kind, message }: Failure): HandoverAnswer {
  return { did: "failed", kind, message: message.slice(0, REASON_CHARACTERS_MAX) };
}

export function encodeLine(message: HandoverRequest | HandoverAnswer | HandoverNote): Buffer {
  const line = Buffer.from(`${JSON.stringify(message)}\n`);
  if (line.length > MESSAGE_BYTES_MAX) {
    throw new Failure("invalid", `a message of ${line.length} bytes is too long for the socket`);
  }
  return line;
}

/** Everything that a node service may say. */
export function decodeRequest(line: string): HandoverRequest {
  return request(parseJson(line), "");
}

/** Everything that a mounter may say. */
export function decodeMounterLine(line: string): HandoverAnswer | HandoverNote {
  const value = parseJson(line);
  const isNote = typeof value === "object" && value !== null && "note" in value;
  const shape: Shape<HandoverAnswer | HandoverNote> = isNote ? note : answer;
  return shape(value, "");
}

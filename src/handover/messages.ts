import { StringDecoder } from "node:string_decoder";
import * as z from "zod/mini";
import { FAILURE_KINDS, Failure } from "../base/failure.ts";
import { parse } from "../base/parse.ts";

/** The socket's name in the directory that node service and Mountpoint Pod share. */
export const SOCKET_NAME = "mount.sock";
/**
 * A message is one line of JSON and fits into a socket's buffer: it is sent whole or not at all.
 */
export const MESSAGE_BYTES_MAX = 64 * 1024;

const REASON_CHARACTERS_MAX = 4096;

/** A word of a command line or environment: the kernel ends it at the first NUL. */
const Word = z.string().check(z.refine((text) => !text.includes("\0"), "holds a NUL character"));
const Filled = z.string().check(z.minLength(1));

export const Credentials = z.strictObject({
  accessKeyId: Filled,
  secretAccessKey: Filled,
  sessionToken: z.optional(Filled),
});
export type Credentials = z.infer<typeof Credentials>;

/** What a Mountpoint Pod serves, for as many engines and pods as it takes. */
export const MountSpec = z.strictObject({
  bucket: Word.check(z.minLength(1)),
  /** Options of the engine, one word each: whatever is no option is refused by the engine. */
  args: z.array(Word),
  /** Settings of the engine alone: nothing here may change how its process is started. */
  env: z.record(z.string().check(z.regex(/^AWS_[A-Z_]+$/)), Word),
  /** Over the socket only: no environment, no pod spec ever holds them, and no file on a disk. */
  credentials: z.nullable(Credentials),
  /** Absent for our own, which mounters of releases before this word serve too. */
  engine: z.optional(z.literal("mount-s3")),
});
export type MountSpec = z.infer<typeof MountSpec>;

/** Node service to mounter. */
export const HandoverRequest = z.discriminatedUnion("do", [
  z.extend(MountSpec, {
    do: z.literal("mount"),
    /** An engine in another container has served this mount: go on where it ended. */
    resume: z.boolean(),
  }),
  /** Other keys for the same mount: from now on, without a pause. */
  z.strictObject({ do: z.literal("rekey"), credentials: z.nullable(Credentials) }),
  /**
   * What is served here? It comes with a socket, into which copies of the descriptors go; of
   * mount-s3's there are none.
   */
  z.strictObject({ do: z.literal("share") }),
  /** Complete what was acknowledged, then end: unmounting alone does not end a connection. */
  z.strictObject({ do: z.literal("finish") }),
]);
export type HandoverRequest = z.infer<typeof HandoverRequest>;
export type MountRequest = Extract<HandoverRequest, { do: "mount" }>;

const Reason = z.string().check(z.maxLength(REASON_CHARACTERS_MAX));

/** Mounter to node service, when it was asked. */
export const HandoverAnswer = z.discriminatedUnion("did", [
  z.strictObject({ did: z.literal("ready") }),
  z.strictObject({ did: z.literal("rekeyed") }),
  /** Null: this container serves nothing, and there is no descriptor to share. */
  z.strictObject({ did: z.literal("shared"), mount: z.nullable(MountSpec) }),
  z.strictObject({ did: z.literal("failed"), kind: z.enum(FAILURE_KINDS), message: Reason }),
  z.strictObject({ did: z.literal("finished") }),
]);
export type HandoverAnswer = z.infer<typeof HandoverAnswer>;

/** Mounter to node service, unasked: how the engine is. */
export const HandoverNote = z.discriminatedUnion("note", [
  z.strictObject({ note: z.literal("lost"), cause: Reason }),
  z.strictObject({ note: z.literal("recovered"), cause: Reason, pauseMs: z.number() }),
  z.strictObject({ note: z.literal("given-up"), cause: Reason }),
]);
export type HandoverNote = z.infer<typeof HandoverNote>;

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

export function decodeLine<T>(schema: z.ZodMiniType<T>, line: string): T {
  return parse(schema, parseJson(line));
}

/** Everything that a mounter may say. */
export function decodeMounterLine(line: string): HandoverAnswer | HandoverNote {
  const value = parseJson(line);
  const isNote = typeof value === "object" && value !== null && "note" in value;
  return parse<HandoverAnswer | HandoverNote>(isNote ? HandoverNote : HandoverAnswer, value);
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // Without its cause, which quotes the line: that may hold a key.
    throw new Failure("invalid", "the peer sent a line that is not JSON");
  }
}

/** Cuts a stream into lines, wherever the chunks end, and refuses a line that is too long. */
export class LineBuffer {
  readonly #decoder = new StringDecoder("utf8"); // a chunk may end within a character
  #rest = "";

  *add(bytes: Buffer): Generator<string, void, undefined> {
    const lines = (this.#rest + this.#decoder.write(bytes)).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) yield checkLength(line);
    checkLength(this.#rest);
  }
}

function checkLength(line: string): string {
  if (line.length <= MESSAGE_BYTES_MAX) return line;
  throw new Failure("invalid", `the peer sent a line of more than ${MESSAGE_BYTES_MAX} bytes`);
}

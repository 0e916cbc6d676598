import { StringDecoder } from "node:string_decoder";
import * as z from "zod";
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
const Word = z.string().refine((text) => !text.includes("\0"), "holds a NUL character");

export const Credentials = z.strictObject({
  accessKeyId: z.string().min(1),
  secretAccessKey: z.string().min(1),
  sessionToken: z.string().min(1).optional(),
});
export type Credentials = z.infer<typeof Credentials>;

/** Node service to mounter. */
export const HandoverRequest = z.discriminatedUnion("do", [
  z.strictObject({
    do: z.literal("mount"),
    bucket: Word.min(1),
    /** Options of `s3csi mount`, one word each: whatever is no option is refused by the engine. */
    args: z.array(Word),
    /** Settings of the engine alone: nothing here may change how its process is started. */
    env: z.record(z.string().regex(/^AWS_[A-Z_]+$/), Word),
    /** Over the socket only: no file, no environment, no pod spec ever holds them. */
    credentials: Credentials.nullable(),
  }),
  /** Complete what was acknowledged, then end: unmounting alone does not end a connection. */
  z.strictObject({ do: z.literal("finish") }),
]);
export type HandoverRequest = z.infer<typeof HandoverRequest>;
export type MountRequest = Extract<HandoverRequest, { do: "mount" }>;

/** Mounter to node service. */
export const HandoverAnswer = z.discriminatedUnion("did", [
  z.strictObject({ did: z.literal("ready") }),
  z.strictObject({
    did: z.literal("failed"),
    kind: z.enum(FAILURE_KINDS),
    message: z.string().max(REASON_CHARACTERS_MAX),
  }),
  z.strictObject({ did: z.literal("finished") }),
]);
export type HandoverAnswer = z.infer<typeof HandoverAnswer>;

/** A failure as it travels: its reason is for people, and cut where it would not fit. */
export function failedAnswer({ kind, message }: Failure): HandoverAnswer {
  return { did: "failed", kind, message: message.slice(0, REASON_CHARACTERS_MAX) };
}

export function encodeLine(message: HandoverRequest | HandoverAnswer): Buffer {
  const line = Buffer.from(`${JSON.stringify(message)}\n`);
  if (line.length > MESSAGE_BYTES_MAX) {
    throw new Failure("invalid", `a message of ${line.length} bytes is too long for the socket`);
  }
  return line;
}

export function decodeLine<T>(schema: z.ZodType<T>, line: string): T {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    // Without its cause, which quotes the line: that may hold a key.
    throw new Failure("invalid", "the peer sent a line that is not JSON");
  }
  return parse(schema, value);
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

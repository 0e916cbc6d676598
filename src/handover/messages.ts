import * as z from "zod";
import { Failure } from "../base/failure.ts";
import { parse } from "../base/parse.ts";

/** The socket's name in the directory that node service and Mountpoint Pod share. */
export const SOCKET_NAME = "mount.sock";
/**
 * A message is one line of JSON and fits into a socket's buffer: it is sent whole or not at all.
 */
export const MESSAGE_BYTES_MAX = 64 * 1024;
/** What a mount request brings along, in this order. */
export const DESCRIPTORS = ["fuse", "slots"] as const;

const KINDS = [
  "invalid",
  "absent",
  "conflict",
  "denied",
  "refused",
  "stale",
  "busy",
  "timeout",
  "remote",
] as const;

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
    bucket: z.string().min(1),
    /** Options of `s3csi mount`, one word each. */
    args: z.array(z.string()),
    env: z.record(z.string(), z.string()),
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
  z.strictObject({ did: z.literal("failed"), kind: z.enum(KINDS), message: z.string().max(4096) }),
  z.strictObject({ did: z.literal("finished") }),
]);
export type HandoverAnswer = z.infer<typeof HandoverAnswer>;

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
  } catch (error) {
    throw new Failure("invalid", "the peer sent a line that is not JSON", error);
  }
  return parse(schema, value);
}

/** Cuts a stream into lines, and refuses one that never ends. */
export class LineBuffer {
  #rest = "";

  *add(bytes: Buffer): Generator<string, void, undefined> {
    this.#rest += bytes.toString("utf8");
    for (;;) {
      const end = this.#rest.indexOf("\n");
      if (end === -1) break;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + 1);
      yield line;
    }
    if (this.#rest.length > MESSAGE_BYTES_MAX) {
      throw new Failure("invalid", "the peer sent a line without an end");
    }
  }
}

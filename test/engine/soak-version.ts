import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";

/** The content that one writer gives to one file. Its bytes follow from these fields alone. */
export interface Version {
  readonly file: string;
  readonly writer: string;
  readonly number: number;
  readonly sizeBytes: number;
}

/** A body that is shorter than this does not name its version completely. */
export const HEADER_BYTES = 128;
/** Every such distance the bytes name their own offset, so that moved bytes are noticed too. */
const STAMP_EVERY_BYTES = 512;

export function idOf({ writer, number }: Version): string {
  return `${writer}#${number}`;
}

export function contentOf(version: Version): Buffer {
  const { file, writer, number, sizeBytes } = version;
  const digest = createHash("sha512")
    .update(`${file} ${idOf(version)}`)
    .digest();
  const content = Buffer.alloc(sizeBytes, digest);
  for (let at = 0; at + 4 <= sizeBytes; at += STAMP_EVERY_BYTES) content.writeUInt32LE(at, at);
  const fields = JSON.stringify([file, writer, number, sizeBytes]);
  // The digest comes first: even a few bytes then tell most versions apart.
  const header = `${digest.toString("hex", 0, 8)}${fields}`.padEnd(HEADER_BYTES, "\n");
  if (header.length > HEADER_BYTES) throw new Error(`${fields} does not fit into the header`);
  content.write(header, 0, "latin1");
  return content;
}

/** The version that a body claims to be. Undefined: it begins like no version at all. */
export function claimedBy(head: Uint8Array): Version | undefined {
  const header = Buffer.from(head.subarray(0, HEADER_BYTES)).toString("latin1");
  const fields = /^[0-9a-f]{16}(\[.*\])\n*$/.exec(header)?.[1];
  if (fields === undefined) return undefined;
  const [file, writer, number, sizeBytes] = JSON.parse(fields) as [string, string, number, number];
  return { file, writer, number, sizeBytes };
}

/** Where bytes differ from those of the version at that offset; undefined: nowhere. */
export function differenceAt(
  content: Buffer,
  offsetBytes: number,
  bytes: Uint8Array,
): number | undefined {
  const expected = content.subarray(offsetBytes, offsetBytes + bytes.length);
  if (expected.equals(bytes)) return undefined;
  const index = bytes.findIndex((byte, at) => byte !== expected[at]);
  return offsetBytes + index;
}

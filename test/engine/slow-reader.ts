import * as fs from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const PIECE_BYTES = 1 << 20;
const PAUSE_MS = 5;

/** Reads a file from its start, more slowly than any S3 server: that one has to wait for us. */
export async function readSlowly(path: string): Promise<Buffer> {
  await using file = await fs.open(path);
  const { size } = await file.stat();
  const bytes = Buffer.alloc(size);
  for (let at = 0; at < size;) {
    const { bytesRead } = await file.read(bytes, at, PIECE_BYTES, at);
    if (bytesRead === 0) throw new Error(`${path} ends at ${at} of ${size} bytes`);
    at += bytesRead;
    await sleep(PAUSE_MS);
  }
  return bytes;
}

import { Buffer } from "node:buffer";
import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { PART_BYTES, partOf } from "../engine/content.ts";
import { sharedMs } from "./engine-killer.ts";

/**
 * An application on a mount: reads or writes a large object in order, 1 MiB by each call, and
 * knows nothing of engines. At given places it says so on descriptor 3.
 */
const CHUNK_BYTES = 1 << 20;
/** A call that took less was not held up by anything. */
const SLOW_MS = 5;

export interface VictimReport {
  /** The calls that took long: when they began and ended, in milliseconds. */
  readonly slow: readonly (readonly [startMs: number, endMs: number])[];
}

function write(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
}

function readAndCompare(fd: number, into: Buffer, wanted: Buffer): void {
  for (let at = 0; at < into.length;) {
    const count = readSync(fd, into, at, into.length - at, null);
    if (count === 0) throw new Error("the file ends too early");
    at += count;
  }
  if (!into.equals(wanted)) throw new Error("wrong bytes");
}

function main([verb, path = "", sizeText, ...places]: readonly string[]): VictimReport {
  const fd = openSync(path, verb === "read" ? "r" : "w");
  const into = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  const marks = new Set(places.map(Number));
  const slow: [number, number][] = [];
  const timed = (call: () => void) => {
    const startMs = sharedMs();
    call();
    const endMs = sharedMs();
    if (endMs - startMs > SLOW_MS) slow.push([startMs, endMs]);
  };
  let part: Buffer = into;
  for (let at = 0; at < Number(sizeText); at += CHUNK_BYTES) {
    if (at % PART_BYTES === 0) part = partOf(at / PART_BYTES);
    const wanted = part.subarray(at % PART_BYTES, (at % PART_BYTES) + CHUNK_BYTES);
    if (marks.has(at / CHUNK_BYTES)) writeSync(3, ".");
    timed(() => (verb === "read" ? readAndCompare(fd, into, wanted) : write(fd, wanted)));
  }
  if (verb === "read" && readSync(fd, into) !== 0) throw new Error("the file is too long");
  timed(() => closeSync(fd));
  return { slow };
}

if (import.meta.main) process.stdout.write(JSON.stringify(main(process.argv.slice(2))));

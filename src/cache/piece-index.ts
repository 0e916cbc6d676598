import { BLOCK_BYTES } from "./piece-file.ts";
import type { Span } from "./piece-file.ts";

const NAME = /^([0-9a-f]{32})-([0-9a-f]{1,13})-([0-9a-f]{1,6})-(\d{1,15})$/;

/** A part of a block that is on the disk, in a file of its own. */
export interface Piece extends Span {
  /** Of the object's identity. */
  readonly objectHash: string;
  /** No two files ever have the same name: one that is removed late can't be its successor. */
  readonly serial: number;
  /** What it counts for in the limit. */
  readonly chargedBytes: number;
  /** Reads under way: the file must not go before their end. */
  readers: number;
}

/** Says all that the index needs, so that a start has to look at names and sizes alone. */
export function fileNameOf({ objectHash, offsetBytes, sizeBytes, serial }: Piece): string {
  return `${objectHash}-${offsetBytes.toString(16)}-${sizeBytes.toString(16)}-${serial}`;
}

export function parseFileName(name: string): Omit<Piece, "chargedBytes" | "readers"> | undefined {
  const [, objectHash = "", offset = "", size = "", serial = ""] = NAME.exec(name) ?? [];
  const offsetBytes = Number.parseInt(offset, 16);
  const sizeBytes = Number.parseInt(size, 16);
  const fits = sizeBytes > 0 && (offsetBytes % BLOCK_BYTES) + sizeBytes <= BLOCK_BYTES;
  return fits ? { objectHash, offsetBytes, sizeBytes, serial: Number(serial) } : undefined;
}

/** Which pieces there are, and which of them was used longest ago. */
export class PieceIndex {
  readonly #blocks = new Map<string, Piece[]>();
  readonly #byUse = new Set<Piece>(); // in the order of their last use

  get count(): number {
    return this.#byUse.size;
  }

  /** The piece that has the whole span, which lies in one block. */
  covering(objectHash: string, span: Span): Piece | undefined {
    const pieces = this.#blocks.get(blockOf(objectHash, span));
    return pieces?.find((piece) => contains(piece, span));
  }

  /** Other pieces which have nothing that this one has not. */
  within(outer: Piece): Piece[] {
    const pieces = this.#blocks.get(blockOf(outer.objectHash, outer)) ?? [];
    return pieces.filter((piece) => piece !== outer && contains(outer, piece));
  }

  has(piece: Piece): boolean {
    return this.#byUse.has(piece);
  }

  add(piece: Piece): void {
    const block = blockOf(piece.objectHash, piece);
    const pieces = this.#blocks.get(block);
    if (pieces === undefined) this.#blocks.set(block, [piece]);
    else pieces.push(piece);
    this.#byUse.add(piece);
  }

  remove(piece: Piece): void {
    this.#byUse.delete(piece);
    const block = blockOf(piece.objectHash, piece);
    const rest = (this.#blocks.get(block) ?? []).filter((other) => other !== piece);
    if (rest.length === 0) this.#blocks.delete(block);
    else this.#blocks.set(block, rest);
  }

  touch(piece: Piece): void {
    if (this.#byUse.delete(piece)) this.#byUse.add(piece);
  }

  leastRecent(): Piece | undefined {
    for (const piece of this.#byUse) if (piece.readers === 0) return piece;
    return undefined;
  }
}

function blockOf(objectHash: string, { offsetBytes }: Span): string {
  return `${objectHash}/${Math.floor(offsetBytes / BLOCK_BYTES)}`;
}

function contains(outer: Span, inner: Span): boolean {
  const outerEnd = outer.offsetBytes + outer.sizeBytes;
  return outer.offsetBytes <= inner.offsetBytes && inner.offsetBytes + inner.sizeBytes <= outerEnd;
}

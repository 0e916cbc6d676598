import { setImmediate as nextTurn } from "node:timers/promises";
import type { FoundPiece } from "./cache-directory.ts";

const RUN_LENGTH = 2048;
const STEP_LENGTH = 4096;

/**
 * Puts pieces in the order of their age while they are being found. Up to 262,144 of them are
 * sorted and merged in steps of a millisecond or so, between which the event loop has its turns.
 */
export class PieceOrder {
  #run: FoundPiece[] = [];
  readonly #runs: FoundPiece[][] = [];

  add(found: readonly FoundPiece[]): void {
    this.#run.push(...found);
    if (this.#run.length >= RUN_LENGTH) this.#endRun();
  }

  /** Empties it; the oldest piece is the first. */
  async take(): Promise<FoundPiece[]> {
    this.#endRun();
    for (;;) {
      const left = this.#runs.shift() ?? [];
      const right = this.#runs.shift();
      if (right === undefined) return left;
      this.#runs.push(await merge(left, right));
    }
  }

  #endRun(): void {
    this.#runs.push(this.#run.toSorted((left, right) => left.mtimeMs - right.mtimeMs));
    this.#run = [];
  }
}

async function merge(left: FoundPiece[], right: FoundPiece[]): Promise<FoundPiece[]> {
  const merged: FoundPiece[] = [];
  let [fromLeft, fromRight] = [0, 0];
  for (;;) {
    const [one, other] = [left[fromLeft], right[fromRight]];
    const isLeft = other === undefined || (one !== undefined && one.mtimeMs <= other.mtimeMs);
    const next = isLeft ? one : other;
    if (next === undefined) return merged;
    merged.push(next);
    if (isLeft) fromLeft += 1;
    else fromRight += 1;
    if (merged.length % STEP_LENGTH === 0) await nextTurn();
  }
}

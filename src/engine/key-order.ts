import { Buffer } from "node:buffer";

/** As S3 sorts: by UTF-8 bytes, which is not the order of JavaScript's strings. */
export function compareKeys(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

export function maxKey(left: string, right: string): string {
  return compareKeys(left, right) > 0 ? left : right;
}

export function minKey(left: string, right: string): string {
  return compareKeys(left, right) < 0 ? left : right;
}

/** How many of these keys, which are in order, come up to `last`. */
export function countUpTo(last: string, keys: readonly string[]): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareKeys(keys[middle] ?? "", last) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** By a quick look, which takes some rare characters for unsorted. */
export function isSorted(keys: readonly string[]): boolean {
  return keys.every((key, index) => index === 0 || (keys[index - 1] ?? "") < key);
}

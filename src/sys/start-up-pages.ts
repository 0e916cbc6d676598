import { bind } from "./libc.ts";
import { ownMappings } from "./mappings.ts";

const MADV_DONTNEED = 4;
/** Behind a whole crowd that starts at once: nobody shall wait for it. */
const CALM_AFTER_MS = 30_000;
/** Private and without a right to write, of a file. */
const FILE_MAPPING = /^([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ [1-9]\d* +\/[^\n]*\n/;

const madvise = bind("int madvise(uint64_t at, size_t size, int advice)");

/**
 * Most of Node's program is read while it starts, and never again; it stays mapped, 35 MiB of it,
 * in each of the two processes of a mount. Once it is unmapped, a page that is needed after all
 * comes back from the page cache with its neighbours, in microseconds.
 */
export function dropStartUpPagesLater(): void {
  setTimeout(dropIfPossible, CALM_AFTER_MS).unref();
}

function dropIfPossible(): void {
  try {
    dropStartUpPages();
  } catch {
    // Without /proc they stay mapped.
  }
}

/** Only pages that are still as they are in their file: of a mapping that has none of its own. */
export function dropStartUpPages(): void {
  for (const mapping of ownMappings()) {
    const [, start, end] = FILE_MAPPING.exec(mapping) ?? [];
    if (start === undefined || !/^Anonymous: +0 kB$/m.test(mapping)) continue;
    const at = BigInt(`0x${start}`);
    madvise(at, BigInt(`0x${end}`) - at, MADV_DONTNEED); // refused: they stay, which is no harm
  }
}

import type { LedgerFault } from "./soak-report.ts";
import { contentOf, idOf } from "./soak-version.ts";
import type { Version } from "./soak-version.ts";

/** A change of the object that happened, or may have happened, between two moments. */
export interface Effect {
  /** Undefined: the object is deleted. */
  readonly version: Version | undefined;
  /** How much of the version the object may hold: all of it, unless its writer was killed. */
  readonly lengths: readonly [min: number, max: number];
  readonly begin: number;
  /** Infinity: nobody was told when it was over. */
  readonly end: number;
  readonly certain: boolean;
  /**
   * Of an effect without an end: when its program had returned from it or was dead. Whichever
   * program opens or deletes the file later is let in only when the upload is over.
   */
  readonly doneAsking?: number;
  /** Of a failed call: it can have had an effect only if S3 did it and the answer was lost. */
  readonly needsLostAnswer?: boolean;
  /**
   * Of a deletion: its DELETE is repeated only while the object is the version that the mount knew
   * last. Another client may have replaced that a moment before: then nothing is deleted.
   */
  readonly isVersioned?: boolean;
}

/** When the way to S3 has failed for an object. */
export interface Failures {
  /** An answer to a change was lost. */
  readonly lost: readonly number[];
  /** A DELETE was not executed or not answered, so that the engine has looked what is there. */
  readonly repeated: readonly number[];
}

/** A body of that length, or no object, as a reader found it. */
export interface Sighting {
  readonly who: string;
  readonly begin: number;
  readonly end: number;
  /** Undefined: no object. A short body without a name comes as its bytes. */
  readonly found: { readonly sizeBytes: number; readonly is: Version | Uint8Array } | undefined;
}

const STALE = "a version is there that was replaced or deleted";

interface Interval {
  readonly begin: number;
  readonly end: number;
}

/**
 * All that was done to one object, and all that was seen of it. What was seen is right if some
 * order of the effects explains it in which each falls between its two moments.
 */
export class FileHistory {
  readonly #effects: Effect[] = [
    { version: undefined, lengths: [0, 0], begin: -1, end: -1, certain: true },
  ];
  readonly #sightings: Sighting[] = [];
  readonly #exclusive: Interval[] = [];

  add(effect: Effect): void {
    this.#effects.push(effect);
  }

  saw(sighting: Sighting): void {
    this.#sightings.push(sighting);
  }

  /** In that time the mount let somebody in that it keeps out while the file is written. */
  wasOpened(begin: number, end: number): void {
    this.#exclusive.push({ begin, end });
  }

  /** Sightings that no order of effects explains. */
  faults(failures: Failures): LedgerFault[] {
    const effects = this.#settledEffects(failures);
    const firstEndAfter = firstEnds(effects.filter(({ certain }) => certain));
    return this.#sightings.flatMap((sighting) => {
      const same = effects.filter((effect) => isSame(effect, sighting.found));
      const explained = same.some(
        ({ begin, end }) => begin <= sighting.end && firstEndAfter(end) >= sighting.begin,
      );
      if (explained) return [];
      const { who, begin, end, found } = sighting;
      const isEnd = end === Infinity ? "at the end " : "";
      const known = same.length === 0 ? "a version is there that nobody published" : STALE;
      const kind = `${isEnd}${found === undefined ? "an object is missing" : known}`;
      const when = `${begin.toFixed(1)}..${end.toFixed(1)}`;
      const what = `${who} at ${when} found ${nameOf(sighting)}\n${this.#tell(effects, end)}`;
      return [{ kind, what }];
    });
  }

  /** Effects with the end that others prove, without those that nothing can have caused. */
  #settledEffects({ lost, repeated }: Failures): Effect[] {
    const firstOpeningAfter = firstEnds(this.#exclusive);
    return this.#effects.flatMap((effect) => {
      const { doneAsking, begin } = effect;
      if (doneAsking === undefined) {
        const isRepeated = repeated.some((at) => at >= begin && at <= effect.end);
        const mayBeVoid = effect.isVersioned === true && isRepeated;
        return mayBeVoid ? [{ ...effect, certain: false }] : [effect];
      }
      const end = Math.min(effect.end, firstOpeningAfter(doneAsking));
      const isLost = lost.some((at) => at >= begin && at <= end);
      return effect.needsLostAnswer === true && !isLost ? [] : [{ ...effect, end }];
    });
  }

  /** The latest effects before that, for whoever has to understand a failure. */
  #tell(effects: readonly Effect[], before: number): string {
    const latest = effects.filter(({ begin }) => begin <= before).slice(-8);
    const lines = latest.map(({ version, lengths, begin, end, certain }) => {
      const what = version === undefined ? "no object" : `${idOf(version)} [${lengths.join("..")}]`;
      return `    ${begin.toFixed(1)}..${end.toFixed(1)} ${certain ? "" : "perhaps "}${what}`;
    });
    return lines.join("\n");
  }
}

/** For a moment: when the first of the intervals was over that began after that moment. */
function firstEnds(intervals: readonly Interval[]): (moment: number) => number {
  const sorted = intervals.toSorted((one, other) => other.begin - one.begin);
  let end = Infinity;
  const ends = sorted.map((interval) => (end = Math.min(end, interval.end)));
  return (moment) => {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sorted[middle]?.begin ?? 0) > moment) low = middle + 1;
      else high = middle;
    }
    return ends[low - 1] ?? Infinity;
  };
}

function isSame({ version, lengths: [min, max] }: Effect, found: Sighting["found"]): boolean {
  if (version === undefined || found === undefined) return version === found;
  const { is, sizeBytes } = found;
  if (sizeBytes < min || sizeBytes > max) return false;
  if (is instanceof Uint8Array) return contentOf(version).subarray(0, sizeBytes).equals(is);
  return idOf(is) === idOf(version) && is.file === version.file;
}

function nameOf({ found }: Sighting): string {
  if (found === undefined) return "no object";
  const { is, sizeBytes } = found;
  if (is instanceof Uint8Array) return `${sizeBytes} bytes ${Buffer.from(is).toString("hex")}`;
  return `${sizeBytes} of ${is.sizeBytes} bytes of ${idOf(is)}`;
}

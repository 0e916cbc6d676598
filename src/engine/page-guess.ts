/** Where a page begins and ends, and how many names it has. */
export interface PageEnds {
  readonly first: string;
  readonly last: string;
  readonly count: number;
}

export interface Guess {
  /** The name that is expected there, or shortly before it. */
  readonly name: string;
  /** The page has every number from its first name's to its last one's. */
  readonly isSure: boolean;
}

/** What of two names counts: `photo-`, 0 and 999, `.jpg`. */
interface Numbers {
  readonly stem: string;
  readonly low: number;
  readonly high: number;
  readonly width: number;
  readonly base: 10 | 16;
  /** Behind the number, where it is the same in both. */
  readonly rest: string | undefined;
}

/** Where names are not numbered one by one: rather a few of them twice than a gap. */
const CAUTION = 0.9;
const DECIMAL = /^(\d{1,15})(?![\da-f])(.*)$/s;
/** Of a hash the first digits: as many as a number holds exactly. */
const HEXADECIMAL = /^([\da-f]{1,12})(.*)$/s;

/** The name that so many more pages would end with, for names that are numbered or are hashes. */
export function guessEnd({ first, last, count }: PageEnds, pages: number): Guess | undefined {
  const numbers = numbersOf(first, last);
  if (numbers === undefined || count < 2) return undefined;
  const { stem, low, high, width, base, rest } = numbers;
  const isSure = rest !== undefined && high - low === count - 1;
  const distance = isSure ? count : ((high - low) / (count - 1)) * count * CAUTION;
  const digits = Math.floor(high + distance * pages).toString(base);
  if (digits.length > width) return undefined; // the numbers end before that
  return { name: stem + digits.padStart(width, "0") + (isSure ? rest : ""), isSure };
}

function numbersOf(first: string, last: string): Numbers | undefined {
  return numbersIn(first, last, 10) ?? numbersIn(first, last, 16);
}

function numbersIn(first: string, last: string, base: 10 | 16): Numbers | undefined {
  const [digit, pattern] = base === 10 ? [/\d/, DECIMAL] : [/[\da-f]/, HEXADECIMAL];
  let from = 0;
  while (from < first.length && first[from] === last[from]) from += 1;
  while (from > 0 && digit.test(last.charAt(from - 1))) from -= 1;
  const [, low, lowRest] = pattern.exec(first.slice(from)) ?? [];
  const [, high, highRest] = pattern.exec(last.slice(from)) ?? [];
  if (low === undefined || high === undefined || low.length !== high.length) return undefined;
  return {
    stem: last.slice(0, from),
    low: Number.parseInt(low, base),
    high: Number.parseInt(high, base),
    width: high.length,
    base,
    rest: lowRest === highRest ? highRest : undefined,
  };
}

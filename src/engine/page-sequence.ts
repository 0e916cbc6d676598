import type { ListPage } from "../s3/object-store.ts";
import { compareKeys, countUpTo, isSorted, maxKey, minKey } from "./key-order.ts";
import { guessEnd } from "./page-guess.ts";
import type { Guess, PageEnds } from "./page-guess.ts";

/** So many pages are asked for whose beginnings are guessed, and no more than are here already. */
const GUESSED_MAX = 2;
/** A guess was right when no larger part of the page behind it had been given before. */
const DOUBLE_MAX = 0.25;
/** Each may have cost a request that was not needed. */
const MISSES_MAX = 3;

export interface PageSource {
  /** What all keys begin with. */
  readonly prefix: string;
  readonly ttlMs: number;
  /** Without a token it begins behind the key `startAfter`, if there is one. */
  page(continuationToken: string | undefined, startAfter: string | undefined): Promise<AskedPage>;
}

export interface AskedPage extends ListPage {
  /** The count of own changes when it was asked for: see OwnChanges. */
  readonly since: number;
}

export interface DatedPage extends AskedPage {
  readonly validUntilMs: number;
}

/** A page on its way, or here and not read yet. */
interface Asked {
  readonly page: Promise<AskedPage>;
  readonly validUntilMs: number;
  /** The key behind which it begins; undefined: it follows by its token. */
  readonly guess: string | undefined;
  failed: boolean;
}

/**
 * The pages of a listing, one behind the other and without a gap. The endpoint works on the next
 * one while the last is read. It can say how a page goes on only when it is here; but any page can
 * begin behind a key of our choice, so where keys can be foretold it works on several at once.
 */
export class PageSequence {
  readonly #source: PageSource;
  readonly #startAfter: string | undefined;
  #token: string | undefined;
  /** The last key that was given. */
  #passed = "";
  /** The page in front, and those behind it. */
  #asked: Asked[] = [];
  /** Where the page in front will end, should keys be foretold. */
  #expected: string | undefined;
  #isForetold = false;
  #misses = 0;
  #pages = 0;

  constructor(source: PageSource, startAfter?: string) {
    this.#source = source;
    this.#startAfter = startAfter;
  }

  /** The page behind the one that was passed last. After a failure it is asked for again. */
  async current(): Promise<DatedPage> {
    const front = this.#front();
    const isGuessed = front.guess !== undefined;
    const whole = isGuessed ? await front.page.catch(() => undefined) : await front.page;
    const page = isGuessed ? whole && this.#unseenOf(whole) : whole;
    if (whole === undefined || page === undefined) {
      this.#miss(); // by its token it is what it has to be, or fails
      this.#asked = [];
      return this.current();
    }
    this.#askAhead(whole);
    const { objects, prefixes, nextToken } = page;
    const { since } = whole;
    return { objects, prefixes, nextToken, since, validUntilMs: front.validUntilMs };
  }

  /** The current page is done with. */
  pass(page: ListPage): void {
    this.#asked.shift();
    this.#pages += 1;
    this.#token = page.nextToken;
    this.#passed = maxKey(this.#passed, lastKeyOf(page));
  }

  #front(): Asked {
    const [asked] = this.#asked;
    if (asked !== undefined && !asked.failed) return asked;
    if (asked?.guess !== undefined) this.#miss();
    const front = this.#ask(this.#token, this.#startAfter);
    this.#asked = [front];
    return front;
  }

  /** A failure is told to whoever waits for the page. */
  #ask(token: string | undefined, startAfter?: string, isGuess = false): Asked {
    const validUntilMs = performance.now() + this.#source.ttlMs;
    const page = this.#source.page(token, startAfter);
    const asked = { page, validUntilMs, guess: isGuess ? startAfter : undefined, failed: false };
    page.catch(() => (asked.failed = true));
    return asked;
  }

  /** What has not been given yet; undefined when that is nothing, and more would follow. */
  #unseenOf(page: ListPage): ListPage | undefined {
    const unseen = behind(this.#passed, page);
    if (countOf(unseen) < (1 - DOUBLE_MAX) * countOf(page)) this.#miss();
    return countOf(unseen) === 0 && page.nextToken !== undefined ? undefined : unseen;
  }

  /** A page is not read before the one behind it is asked for, where its token is enough. */
  #askAhead(page: ListPage): void {
    const { nextToken } = page;
    if (nextToken === undefined) {
      this.#asked.length = 1;
      return;
    }
    if (this.#asked.length === 1) this.#asked.push(this.#ask(nextToken));
    const end = maxKey(this.#passed, lastKeyOf(page));
    const guess = this.#asked[1]?.guess;
    if (guess !== undefined && compareKeys(guess, end) > 0) {
      this.#miss(); // there may be keys in between
      this.#asked.splice(1, this.#asked.length, this.#ask(nextToken));
    }
    this.#learn(page, end);
    const guessesMax = Math.min(GUESSED_MAX, this.#pages + 1);
    while (this.#isForetold && this.#asked.length < 2 + guessesMax) {
      const name = this.#guess(page, this.#asked.length - 1)?.name;
      if (name === undefined) return;
      const key = this.#source.prefix + name;
      if (compareKeys(key, this.#asked.at(-1)?.guess ?? end) <= 0) return;
      this.#asked.push(this.#ask(undefined, key, true));
    }
  }

  /** Numbers without a hole are believed at once, anything else when one page has shown it. */
  #learn(page: ListPage, end: string): void {
    const [expected, guess] = [this.#expected, this.#guess(page, 1)];
    this.#expected = guess && this.#source.prefix + guess.name;
    if (this.#isForetold || this.#misses >= MISSES_MAX) return;
    const isExpected =
      expected !== undefined &&
      compareKeys(expected, end) <= 0 &&
      countOf(behind(expected, page)) <= DOUBLE_MAX * countOf(page);
    this.#isForetold = (guess?.isSure === true || isExpected) && isInOrder(page);
  }

  #miss(): void {
    this.#misses += 1;
    this.#isForetold = false;
    this.#expected = undefined;
  }

  #guess(page: ListPage, pages: number): Guess | undefined {
    return guessEnd(endsOf(page, this.#source.prefix), pages);
  }
}

/** What of a page comes behind a key. */
function behind(key: string, { objects, prefixes, nextToken }: ListPage): ListPage {
  const keys = objects.map((object) => object.key);
  return {
    objects: objects.slice(countUpTo(key, keys)),
    prefixes: prefixes.slice(countUpTo(key, prefixes)),
    nextToken,
  };
}

/** Where keys have no order, nothing can be said of what is behind one. */
function isInOrder({ objects, prefixes }: ListPage): boolean {
  return isSorted(objects.map(({ key }) => key)) && isSorted(prefixes);
}

function endsOf(page: ListPage, prefix: string): PageEnds {
  const own = page.objects[0]?.key === prefix ? 1 : 0; // the directory's own object
  const nameOf = (key: string) => key.slice(prefix.length).replace(/\/$/, "");
  const firstObject = page.objects[own]?.key ?? page.prefixes[0] ?? prefix;
  const first = minKey(firstObject, page.prefixes[0] ?? firstObject);
  return { first: nameOf(first), last: nameOf(lastKeyOf(page)), count: countOf(page) - own };
}

/** Empty when there is none. */
export function lastKeyOf({ objects, prefixes }: Pick<ListPage, "objects" | "prefixes">): string {
  return maxKey(objects.at(-1)?.key ?? "", prefixes.at(-1) ?? "");
}

function countOf({ objects, prefixes }: ListPage): number {
  return objects.length + prefixes.length;
}

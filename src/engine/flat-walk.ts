import type { ListedObject, ListPage } from "../s3/object-store.ts";
import { compareKeys, isSorted } from "./key-order.ts";

/** So many requests are under way, or their answers not walked through yet. */
const PAGES_AHEAD = 2;

/** When something was asked for, and what had been changed here until then. */
export interface Stamp {
  readonly sinceMs: number;
  readonly changes: number;
}

export interface FlatSource {
  /** Of the directory whose directories are walked through. */
  readonly prefix: string;
  /** The next keys below it behind that one, however deep. */
  page(startAfter: string): Promise<ListPage>;
}

/** What is in a directory; undefined: that has to be asked of S3. It is not older than that. */
export interface Told {
  readonly page: Promise<ListPage | undefined>;
  readonly stamp: Stamp;
}

interface Whole {
  readonly name: string;
  readonly objects: ListedObject[];
  readonly stamp: Stamp;
}

interface Asked {
  /** The first directory that it tells of. */
  readonly from: string;
  readonly stamp: Stamp;
  done: Promise<void>;
  isHere: boolean;
  /** The first directory that it does not tell of, when it is here and there is one. */
  until: string | undefined;
}

/**
 * Small directories beside each other, many of them by one request: all keys below their parent,
 * without a delimiter. Ends where that does not pay: at directories that have directories, or more
 * files than a page.
 */
export class FlatWalk {
  readonly #source: FlatSource;
  readonly #stamp: () => Stamp;
  /** Those that are here as a whole and were not asked for yet. */
  readonly #whole = new Map<string, Whole>();
  /** By where they begin. */
  #asked: Asked[] = [];
  /** How many directories the last page has brought. */
  #perPage = 0;
  #isOver = false;

  constructor(source: FlatSource, stamp: () => Stamp) {
    this.#source = source;
    this.#stamp = stamp;
  }

  /** To be asked for in the order of their keys. `following`: which ones are likely to be next. */
  find(name: string, following: () => readonly string[]): Told {
    const whole = this.#whole.get(name);
    const page = this.#find(name, following);
    const stamp = whole?.stamp ?? this.#askedFor(name)?.stamp ?? this.#stamp();
    return { page, stamp };
  }

  /** Nothing more is found by it. */
  end(): void {
    this.#isOver = true;
    this.#whole.clear();
  }

  async #find(name: string, following: () => readonly string[]) {
    let own: Asked | undefined;
    for (;;) {
      const whole = this.#whole.get(name);
      if (whole !== undefined) return this.#give(whole, following);
      if (this.#isOver) return undefined;
      const asked = this.#askedFor(name) ?? (own ??= this.#ask(name));
      if (asked.isHere) return undefined; // S3 has told of nothing below it, or not of all
      await asked.done;
    }
  }

  #give({ name, objects }: Whole, following: () => readonly string[]): ListPage {
    this.#whole.delete(name);
    this.#asked = this.#asked.filter(({ until }) => until === undefined || isBefore(name, until));
    const underWay = this.#asked.filter(({ isHere }) => !isHere).length;
    if (!this.#isOver && underWay + this.#whole.size / this.#perPage < PAGES_AHEAD) {
      this.#askAhead(following);
    }
    return { objects, prefixes: [], nextToken: undefined };
  }

  /** Where a page will end that is still under way is foretold by the one before. */
  #askAhead(following: () => readonly string[]): void {
    const last = this.#asked.at(-1);
    if (last === undefined) return;
    const behind = () => following().filter((name) => isBefore(last.from, name));
    const from = last.isHere ? last.until : behind()[this.#perPage - 1];
    if (from !== undefined) this.#ask(from);
  }

  #askedFor(name: string): Asked | undefined {
    return this.#asked.findLast(
      ({ from, until }) => !isBefore(name, from) && (until === undefined || isBefore(name, until)),
    );
  }

  #ask(from: string): Asked {
    const stamp = this.#stamp();
    const asked: Asked = { from, stamp, done: Promise.resolve(), isHere: false, until: undefined };
    asked.done = this.#load(asked);
    const behind = this.#asked.findIndex((other) => isBefore(from, other.from));
    this.#asked.splice(behind === -1 ? this.#asked.length : behind, 0, asked);
    return asked;
  }

  async #load(asked: Asked): Promise<void> {
    const startAfter = this.#source.prefix + asked.from; // before its `/`
    try {
      const page = await this.#source.page(startAfter);
      const goesOn = !this.#isOver && this.#isBehind(startAfter, page) && this.#take(page, asked);
      this.#isOver = !goesOn;
    } catch {
      this.#isOver = true; // whoever asks for the directory itself is told
    }
    asked.isHere = true;
  }

  /** Of a server that has its own idea of order, or of where to begin, nothing follows. */
  #isBehind(startAfter: string, { objects, prefixes }: ListPage): boolean {
    const keys = objects.map(({ key }) => key);
    const [first] = keys;
    if (first === undefined || prefixes.length > 0) return false;
    const isBelow = keys.every((key) => key.startsWith(this.#source.prefix));
    return compareKeys(first, startAfter) > 0 && isBelow && isSorted(keys);
  }

  /** False: that was all of use. */
  #take({ objects, nextToken }: ListPage, asked: Asked): boolean {
    let brought = 0;
    let current: Whole | undefined;
    const complete = () => {
      if (current === undefined) return;
      this.#whole.set(current.name, current);
      current = undefined;
      brought += 1;
    };
    let last = "";
    for (const object of objects) {
      const [name = "", file, deeper] = object.key.slice(this.#source.prefix.length).split("/", 3);
      if (name !== current?.name) complete();
      if (deeper !== undefined) return false;
      // Else it is a file beside the directories.
      if (file !== undefined) current ??= { name, objects: [], stamp: asked.stamp };
      current?.objects.push(object);
      last = name;
    }
    if (nextToken === undefined) complete();
    else asked.until = last;
    this.#perPage = brought;
    return brought > 0;
  }
}

/** As the keys below them. */
function isBefore(left: string, right: string): boolean {
  return compareKeys(`${left}/`, `${right}/`) < 0;
}

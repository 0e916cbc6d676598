import { Failure } from "../base/failure.ts";
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

/**
 * What is in a directory; undefined: that has to be asked of S3. It is not older than its stamp.
 * Rejects when S3 was asked again and again, as if it had been for this directory.
 */
export interface Told {
  readonly page: Promise<ListPage | undefined>;
  readonly stamp: Stamp;
}

/** So many names, if there are. */
export type Following = (count: number) => readonly string[];

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
  failure: Failure | undefined;
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
  /** Those that somebody waits for. */
  readonly #waiting = new Set<string>();
  /** The last of those that were asked for. */
  #sought: string | undefined;
  /** The last of those that were told. */
  #given: string | undefined;
  /** How many directories the last page has brought. */
  #perPage = 0;
  /** Behind it is nothing that anybody will ask for. */
  #lastOfAll: Asked | undefined;
  #isOver = false;

  constructor(source: FlatSource, stamp: () => Stamp) {
    this.#source = source;
    this.#stamp = stamp;
  }

  /** To be asked for in the order of their keys. `following`: which ones are likely to be next. */
  find(name: string, following: Following): Told {
    const known = this.#whole.get(name) ?? this.#oldestFor(name);
    // Who goes back is no walker: each step would fetch a page, and one directory of it be used.
    const isBack = this.#sought !== undefined && isBefore(name, this.#sought);
    if (isBack && known === undefined) this.#isOver = true;
    if (!isBack) this.#sought = name;
    const stamp = (known ?? this.#askUnlessOver(name))?.stamp ?? this.#stamp();
    this.#waiting.add(name);
    const page = this.#tell(name, following);
    page.catch(() => undefined); // not everybody wants to know in the end
    return { page, stamp };
  }

  /** Asks for nothing more; what is under way is still told. */
  end(): void {
    this.#isOver = true;
  }

  async #tell(name: string, following: Following): Promise<ListPage | undefined> {
    let whole: Whole | undefined;
    try {
      whole = await this.#find(name);
    } finally {
      this.#pass(name);
    }
    if (whole === undefined) return undefined;
    if (!this.#isOver) this.#askAhead(following);
    return { objects: whole.objects, prefixes: [], nextToken: undefined };
  }

  async #find(name: string): Promise<Whole | undefined> {
    let own: Asked | undefined;
    for (;;) {
      const whole = this.#whole.get(name);
      if (whole !== undefined) return whole;
      const asked = this.#askedFor(name).at(-1) ?? (own ??= this.#askUnlessOver(name));
      // S3 has told of nothing below it, or not of all.
      if (asked === undefined || asked.isHere) return undefined;
      await asked.done;
      if (asked.failure !== undefined) throw asked.failure;
    }
  }

  #pass(name: string): void {
    this.#waiting.delete(name);
    this.#whole.delete(name);
    if (this.#given === undefined || isBefore(this.#given, name)) this.#given = name;
    for (const other of this.#whole.keys()) {
      if (this.#isWanted(other)) break;
      this.#whole.delete(other); // the walker has passed it by
    }
    this.#asked = this.#asked.filter(({ until }) => until === undefined || isBefore(name, until));
  }

  #isWanted(name: string): boolean {
    return this.#waiting.has(name) || this.#given === undefined || isBefore(this.#given, name);
  }

  /** Where a page will end that is still under way is foretold by the one before. */
  #askAhead(following: Following): void {
    const underWay = this.#asked.filter(({ isHere }) => !isHere).length;
    const last = this.#asked.at(-1);
    if (last === undefined || last === this.#lastOfAll) return;
    if (underWay + this.#whole.size / this.#perPage >= PAGES_AHEAD) return;
    const behind = () => {
      const before = this.#waiting.size + this.#whole.size + 2 * underWay * this.#perPage;
      const names = following(before + this.#perPage);
      return names.filter((name) => isBefore(last.from, name))[this.#perPage - 1];
    };
    const from = last.isHere ? last.until : behind();
    if (from === undefined) this.#lastOfAll = last;
    else this.#ask(from);
  }

  /** Those that tell of it, or may do. */
  #askedFor(name: string): readonly Asked[] {
    return this.#asked.filter(
      ({ from, until }) => !isBefore(name, from) && (until === undefined || isBefore(name, until)),
    );
  }

  /** What is here already has told all that it can. */
  #oldestFor(name: string): Asked | undefined {
    const candidates = this.#askedFor(name).toSorted(({ stamp: one }, { stamp: other }) => {
      return one.changes - other.changes || one.sinceMs - other.sinceMs;
    });
    return candidates.find(({ isHere }) => !isHere) ?? candidates[0];
  }

  #askUnlessOver(from: string): Asked | undefined {
    return this.#isOver ? undefined : this.#ask(from);
  }

  #ask(from: string): Asked {
    const stamp = this.#stamp();
    const asked: Asked = {
      from,
      stamp,
      done: Promise.resolve(),
      isHere: false,
      failure: undefined,
      until: undefined,
    };
    asked.done = this.#load(asked);
    const behind = this.#asked.findIndex((other) => isBefore(from, other.from));
    this.#asked.splice(behind === -1 ? this.#asked.length : behind, 0, asked);
    return asked;
  }

  async #load(asked: Asked): Promise<void> {
    // All but the directory's own object, which has no name in it.
    const startAfter = `${this.#source.prefix}${asked.from}/`;
    try {
      const page = await this.#source.page(startAfter);
      const goesOn = this.#isBehind(startAfter, page) && this.#take(page, asked);
      if (!goesOn) this.#isOver = true;
    } catch (error) {
      this.#isOver = true;
      this.#asked = this.#asked.filter((other) => other !== asked);
      // It was waited for S3 as long as that may be. All else may be right for the directory alone.
      if (error instanceof Failure && error.kind === "remote") asked.failure = error;
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
      if (this.#isWanted(current.name)) this.#whole.set(current.name, current);
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

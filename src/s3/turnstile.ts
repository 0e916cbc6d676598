/** Uploads leave this share of the places to other requests, and so do downloads. */
const SHARE_OF_OTHERS = 1 / 4;
/** Only requests without an object's bytes take this share of the places. */
const SHARE_OF_SMALL = 1 / 8;

/** Requests by the bytes of objects that they carry: "small" ones carry none. */
export type RequestLoad = "upload" | "download" | "small";

interface Places {
  taken: number;
  readonly max: number;
}

interface Waiting {
  readonly load: RequestLoad;
  readonly admit: () => void;
}

/**
 * Limits the requests that run at the same time; the others wait in the order in which they came.
 * Uploads never take the last quarter of the places, nor do downloads: a server that is slow to
 * store bytes would stop reads otherwise, and slow reads would stop writers. Both together never
 * take the last eighth: a stat or an unlink does not wait for the bytes of other files.
 */
export class Turnstile {
  readonly #places: Readonly<Record<RequestLoad | "transfer", Places>>;
  readonly #waiting: Waiting[] = [];

  constructor(placesMax: number) {
    const placesBut = (share: number): Places => {
      return { taken: 0, max: Math.max(1, placesMax - Math.floor(placesMax * share)) };
    };
    this.#places = {
      upload: placesBut(SHARE_OF_OTHERS),
      download: placesBut(SHARE_OF_OTHERS),
      transfer: placesBut(SHARE_OF_SMALL),
      small: placesBut(0),
    };
  }

  /** Resolves with the place, to be disposed of; rejects when the signal aborts before. */
  async enter(load: RequestLoad, signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    if (this.#hasPlaceFor(load)) return this.#take(load);
    const { promise, resolve, reject } = Promise.withResolvers<Disposable>();
    const waiting = { load, admit: () => resolve(this.#take(load)) };
    this.#waiting.push(waiting);
    const leave = () => {
      const index = this.#waiting.indexOf(waiting);
      if (index === -1) return; // admitted in this turn of the event loop
      this.#waiting.splice(index, 1);
      reject(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  #hasPlaceFor(load: RequestLoad): boolean {
    return this.#placesOf(load).every(({ taken, max }) => taken < max);
  }

  #take(load: RequestLoad): Disposable {
    for (const places of this.#placesOf(load)) places.taken += 1;
    return {
      [Symbol.dispose]: () => {
        for (const places of this.#placesOf(load)) places.taken -= 1;
        this.#admitNext();
      },
    };
  }

  /** All that count the request. */
  #placesOf(load: RequestLoad): readonly Places[] {
    const { small, transfer, [load]: own } = this.#places;
    return load === "small" ? [small] : [own, transfer, small];
  }

  #admitNext(): void {
    const index = this.#waiting.findIndex(({ load }) => this.#hasPlaceFor(load));
    const [next] = index === -1 ? [] : this.#waiting.splice(index, 1);
    next?.admit();
  }
}

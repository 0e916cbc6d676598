import { setTimeout as delay } from "node:timers/promises";
import { Failure } from "../base/failure.ts";
import { untilFound } from "../base/until-found.ts";
import type { Log } from "../base/log.ts";
import { BackOff } from "./back-off.ts";
import type { KubeClient, Selection, WatchEvent } from "./kube-client.ts";
import type { KubeObject, Resource } from "./resource.ts";
import type { WatchPage } from "./watch-health.ts";

export interface WatchedListOptions<Raw extends KubeObject, T> {
  readonly client: Pick<KubeClient, "list" | "watch"> & Partial<Pick<KubeClient, "watches">>;
  readonly resource: Resource<Raw>;
  readonly selection?: Selection;
  /** Keeps the fields we read; undefined leaves the object out. */
  readonly project: (raw: Raw) => T | undefined;
  readonly log: Log;
  /** The first wait after a fault; it doubles up to BACK_OFF_MAX_MS. */
  readonly backOffMs?: number;
  /** The health of the process does not depend on this list. */
  readonly isTemporary?: boolean;
}

export type ChangeListener<T> = (key: string, now: T | undefined, before: T | undefined) => void;

interface Entry<T> {
  readonly resourceVersion: string;
  readonly value: T;
}

/** Of a whole kind. A selection of it is not paged: see below. */
const PAGE_ITEMS = 500;
const BACK_OFF_FIRST_MS = 1_000;
const BACK_OFF_MAX_MS = 30_000;
/** After this many faults in a row the version itself is suspect (a restored etcd): list anew. */
const FAULTS_BEFORE_RELIST = 4;
/** A watch that ends sooner than this without an event is a fault, not the server's rotation. */
const WATCH_SHORT_MS = 1_000;

/**
 * A cache of one kind that follows the API server and never gives up: list, watch, and after any
 * fault watch on from the last version or list again. Keys are `namespace/name` or `name`.
 */
export class WatchedList<T, Raw extends KubeObject = KubeObject> {
  readonly synced: Promise<void>;
  /**
   * Resolves when the API server has given the list, or has said that it does not know the kind. A
   * server that is away, or that has not heard of our rights yet, has not answered.
   */
  readonly answered: Promise<void>;
  readonly #options: WatchedListOptions<Raw, T>;
  readonly #log: Log;
  readonly #watch: string;
  readonly #backOff: BackOff;
  readonly #listeners = new Set<ChangeListener<T>>();
  /** Versions that were written by us, and that the watch has still to tell of. */
  readonly #ahead = new Map<string, string>();
  readonly #resolveSynced: () => void;
  readonly #resolveAnswered: () => void;
  #fault: Failure | undefined;
  #entries = new Map<string, Entry<T>>();
  #version: string | undefined;

  constructor(options: WatchedListOptions<Raw, T>) {
    this.#options = options;
    this.#log = options.log;
    this.#watch = options.resource.plural;
    this.#backOff = new BackOff(options.backOffMs ?? BACK_OFF_FIRST_MS, BACK_OFF_MAX_MS);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.synced = promise;
    this.#resolveSynced = resolve;
    const answered = Promise.withResolvers<void>();
    this.answered = answered.promise;
    this.#resolveAnswered = answered.resolve;
  }

  /** Why the list can't be followed now; undefined while it is. */
  get fault(): Failure | undefined {
    return this.#fault;
  }

  get(key: string): T | undefined {
    return this.#entries.get(key)?.value;
  }

  *values(): Generator<T, void, undefined> {
    for (const entry of this.#entries.values()) yield entry.value;
  }

  /** Called after the cache has changed, in the order of the changes. Dispose to stop. */
  onChange(listener: ChangeListener<T>): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /**
   * The answer to a write of ours: the watch will tell the same, a little later. Who asks meanwhile
   * has it already. One that the watch has told of is of no use, and may even be gone by now.
   */
  wrote(raw: Raw): void {
    const version = raw.metadata?.resourceVersion ?? "";
    const key = keyOf(raw);
    if (!isLater(version, this.#ahead.get(key) ?? this.#version)) return;
    this.#ahead.set(key, version);
    this.#put(key, raw);
  }

  /** The first answer that `find` gives, now or after a change; rejects when the signal aborts. */
  until<R>(find: (list: this) => R | undefined, signal: AbortSignal): Promise<R> {
    return untilFound(
      () => find(this),
      (look) => this.onChange(look),
      signal,
    );
  }

  /** Follows until the signal aborts. Rejects only for a bug, never for a fault of the server. */
  async start(signal: AbortSignal): Promise<void> {
    const { client, isTemporary = false } = this.#options;
    using note = isTemporary ? undefined : client.watches?.open(this.#watch);
    while (!signal.aborted) {
      try {
        this.#version ??= await this.#relist(signal, note);
        await this.#follow(this.#version, signal, note);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof Failure)) throw error;
        note?.faulted(error.message);
        this.#onFault(error);
        await delay(this.#backOff.nextMs(), undefined, { signal }).catch(() => undefined);
      }
    }
  }

  #onFault(fault: Failure): void {
    this.#fault = fault;
    const { kind, message } = fault;
    const away = kind === "remote" || kind === "timeout" || kind === "busy";
    if (kind === "absent") this.#resolveAnswered();
    if (!away || this.#backOff.failures >= FAULTS_BEFORE_RELIST) this.#version = undefined;
    const level = kind === "stale" ? "info" : "warn";
    const attempt = this.#backOff.failures;
    this.#log[level]({ watch: this.#watch, kind, err: message, attempt }, "watch interrupted");
  }

  async #relist(signal: AbortSignal, note: WatchPage | undefined): Promise<string> {
    const { client, resource, selection = {} } = this.#options;
    const entries = new Map<string, Entry<T>>();
    // With a limit, API servers before 1.34 answer from etcd and not from their cache: for the few
    // pods of a node they would read those of all nodes.
    const query = selection.fieldSelector ? selection : { ...selection, limit: PAGE_ITEMS };
    let page = await client.list(resource, query, signal);
    for (const raw of page.items) this.#keep(entries, raw);
    while (page.metadata.continue) {
      note?.sign();
      const next = { ...query, continue: page.metadata.continue };
      page = await client.list(resource, next, signal);
      for (const raw of page.items) this.#keep(entries, raw);
    }
    this.#replace(entries);
    this.#log.debug({ watch: this.#watch, kept: entries.size }, "listed");
    note?.listed();
    this.#fault = undefined;
    this.#resolveSynced();
    this.#resolveAnswered();
    return page.metadata.resourceVersion;
  }

  #keep(entries: Map<string, Entry<T>>, raw: Raw): void {
    const value = this.#options.project(raw);
    if (value === undefined) return;
    entries.set(keyOf(raw), { value, resourceVersion: raw.metadata?.resourceVersion ?? "" });
  }

  /** Tells the listeners what a list found that no watch has told. */
  #replace(entries: Map<string, Entry<T>>): void {
    const before = this.#entries;
    this.#entries = entries;
    this.#ahead.clear(); // what the list is too old for, the watch tells
    for (const [key, entry] of before) {
      if (!entries.has(key)) this.#notify(key, undefined, entry.value);
    }
    for (const [key, entry] of entries) {
      const old = before.get(key);
      if (old?.resourceVersion !== entry.resourceVersion) {
        this.#notify(key, entry.value, old?.value);
      }
    }
  }

  async #follow(from: string, signal: AbortSignal, note: WatchPage | undefined): Promise<void> {
    const opened = () => {
      this.#fault = undefined;
      note?.followed();
    };
    const { client, resource, selection = {} } = this.#options;
    const startedMs = Date.now();
    let events = 0;
    const since = { ...selection, resourceVersion: from };
    for await (const event of client.watch(resource, since, signal, opened)) {
      events += 1;
      note?.sign();
      this.#backOff.reset();
      this.#accept(event);
      this.#version = event.object.metadata?.resourceVersion ?? this.#version;
    }
    if (events === 0 && Date.now() - startedMs < WATCH_SHORT_MS) {
      throw new Failure("remote", "the watch ended at once");
    }
    this.#backOff.reset();
  }

  #accept(event: WatchEvent<Raw>): void {
    if (event.type === "BOOKMARK") return;
    const key = keyOf(event.object);
    const ahead = this.#ahead.get(key);
    const version = event.object.metadata?.resourceVersion;
    if (ahead !== undefined) {
      if (isLater(ahead, version)) return; // from before our write
      this.#ahead.delete(key);
      if (version === ahead) return; // our write
    }
    this.#put(key, event.type === "DELETED" ? undefined : event.object);
  }

  #put(key: string, raw: Raw | undefined): void {
    const before = this.#entries.get(key)?.value;
    this.#entries.delete(key);
    if (raw !== undefined) this.#keep(this.#entries, raw);
    const now = this.#entries.get(key)?.value;
    if (now !== undefined || before !== undefined) this.#notify(key, now, before);
  }

  #notify(key: string, now: T | undefined, before: T | undefined): void {
    for (const listener of this.#listeners) listener(key, now, before);
  }
}

/** Versions are numbers of one counter: so etcd makes them, and since 1.35 Kubernetes says so. */
function isLater(version: string | undefined, than: string | undefined): boolean {
  if (!isNumber(version) || !isNumber(than)) return false;
  return version.length === than.length ? version > than : version.length > than.length;
}

function isNumber(version: string | undefined): version is string {
  return version !== undefined && /^[1-9]\d*$/.test(version);
}

function keyOf({ metadata }: KubeObject): string {
  const name = metadata?.name ?? "";
  return metadata?.namespace === undefined ? name : `${metadata.namespace}/${name}`;
}

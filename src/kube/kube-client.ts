import { Failure } from "../base/failure.ts";
import { KubeTransport } from "./kube-transport.ts";
import type { SilenceLimits } from "./kube-transport.ts";
import type { KubeAccess } from "./kube-access.ts";
import type { KubeObject, Resource } from "./resource.ts";
import { WatchHealth } from "./watch-health.ts";

export interface Place {
  readonly namespace?: string;
  readonly name: string;
}

export interface Selection {
  /** Unset: all namespaces, or a kind that has none. */
  readonly namespace?: string;
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
}

export interface Page<T> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly T[];
}

export interface DeleteOptions {
  /** What must still be so: another object under the same name is not deleted. */
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly gracePeriodSeconds?: number;
}

/** What must still be so, and what is written along with a finalizer; null removes. */
export interface FinalizerPatch {
  readonly uid: string;
  readonly resourceVersion?: string;
  readonly annotations?: Readonly<Record<string, string | null>>;
}

export type WatchEvent<T> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: T }
  | { readonly type: "BOOKMARK"; readonly object: KubeObject };

export type JsonPatch = readonly {
  readonly op: "add" | "replace" | "remove" | "test";
  readonly path: string;
  readonly value?: unknown;
}[];

const MERGE_PATCH = "application/merge-patch+json";
const STRATEGIC_PATCH = "application/strategic-merge-patch+json";
const JSON_PATCH = "application/json-patch+json";

/** The API server as we use it: typed, thin, without a memory of its own. */
export class KubeClient {
  /** How the lists fare that follow the cluster by this client. */
  readonly watches = new WatchHealth();
  readonly #transport: KubeTransport;

  constructor(access: KubeAccess, silence?: SilenceLimits) {
    this.#transport = new KubeTransport(access, silence);
  }

  async get<T extends KubeObject>(
    resource: Resource<T>,
    place: Place,
    signal: AbortSignal,
  ): Promise<T> {
    return this.#transport.send<T>({ method: "GET", path: pathOf(resource, place) }, signal);
  }

  /** The same, where being absent is an answer. */
  async find<T extends KubeObject>(
    resource: Resource<T>,
    place: Place,
    signal: AbortSignal,
  ): Promise<T | undefined> {
    try {
      return await this.get(resource, place, signal);
    } catch (error) {
      if (error instanceof Failure && error.kind === "absent") return undefined;
      throw error;
    }
  }

  /** The version of the API server, like v1.31.2. */
  async serverVersion(signal: AbortSignal): Promise<string | undefined> {
    const request = { method: "GET", path: "/version" } as const;
    const { gitVersion } = await this.#transport.send<{ gitVersion?: string }>(request, signal);
    return gitVersion;
  }

  /** One page, read from the store and not from a server's cache: it is never older than now. */
  async list<T extends KubeObject>(
    resource: Resource<T>,
    selection: Selection & { readonly limit?: number; readonly continue?: string },
    signal: AbortSignal,
  ): Promise<Page<T>> {
    const query = queryOf(selection);
    if (selection.limit !== undefined) query.set("limit", String(selection.limit));
    if (selection.continue !== undefined) query.set("continue", selection.continue);
    const path = `${pathOf(resource, selection)}?${query.toString()}`;
    return this.#transport.send<Page<T>>({ method: "GET", path }, signal);
  }

  async create<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    signal: AbortSignal,
  ): Promise<T> {
    const namespace = object.metadata?.namespace;
    const path = pathOf(resource, namespace === undefined ? {} : { namespace });
    return this.#transport.send<T>({ method: "POST", path, body: object }, signal);
  }

  /** Replaces the object; its resourceVersion, where set, must still be the stored one. */
  async update<T extends KubeObject>(
    resource: Resource<T>,
    place: Place,
    object: T,
    signal: AbortSignal,
  ): Promise<T> {
    const path = pathOf(resource, place);
    return this.#transport.send<T>({ method: "PUT", path, body: object }, signal);
  }

  /** An object is a merge patch, an array is a JSON patch. */
  async patch<T extends KubeObject>(
    resource: Resource<T>,
    place: Place,
    patch: object | JsonPatch,
    signal: AbortSignal,
  ): Promise<T> {
    return this.#patchAt<T>(pathOf(resource, place), patch, signal);
  }

  /** Adds a finalizer to what is there, without reading first; the object must be the same one. */
  async addFinalizer<T extends KubeObject>(
    resource: Resource<T>,
    place: Place,
    finalizer: string,
    along: FinalizerPatch,
    signal: AbortSignal,
  ): Promise<T> {
    const patch = { metadata: { ...along, finalizers: [finalizer] } };
    return this.#patchAt<T>(pathOf(resource, place), patch, signal, STRATEGIC_PATCH);
  }

  async removeFinalizer<T extends KubeObject>(
    resource: Resource<T>,
    place: Place,
    finalizer: string,
    along: FinalizerPatch,
    signal: AbortSignal,
  ): Promise<T> {
    const patch = { metadata: { ...along, "$deleteFromPrimitiveList/finalizers": [finalizer] } };
    return this.#patchAt<T>(pathOf(resource, place), patch, signal, STRATEGIC_PATCH);
  }

  async patchStatus<T extends KubeObject>(
    resource: Resource<T>,
    place: Place,
    patch: object | JsonPatch,
    signal: AbortSignal,
  ): Promise<T> {
    return this.#patchAt<T>(`${pathOf(resource, place)}/status`, patch, signal);
  }

  async delete<T extends KubeObject>(
    resource: Resource<T>,
    place: Place,
    { gracePeriodSeconds, ...preconditions }: DeleteOptions,
    signal: AbortSignal,
  ): Promise<void> {
    const body = { apiVersion: "v1", kind: "DeleteOptions", gracePeriodSeconds, preconditions };
    await this.#transport.send({ method: "DELETE", path: pathOf(resource, place), body }, signal);
  }

  /**
   * Ends when the server ends it; a silent connection and every other fault is a Failure. Its
   * events may be long in coming: `opened` is called when the server has agreed to send them.
   */
  async *watch<T extends KubeObject>(
    resource: Resource<T>,
    selection: Selection & { readonly resourceVersion: string },
    signal: AbortSignal,
    opened?: () => void,
  ): AsyncGenerator<WatchEvent<T>, void, undefined> {
    const query = queryOf(selection);
    query.set("watch", "true");
    query.set("allowWatchHealthmarks", "true");
    query.set("resourceVersion", selection.resourceVersion);
    const path = `${pathOf(resource, selection)}?${query.toString()}`;
    for await (const line of this.#transport.lines(path, signal, opened)) yield eventOf<T>(line);
  }

  [Symbol.dispose](): void {
    this.#transport[Symbol.dispose]();
  }

  async #patchAt<T>(
    path: string,
    patch: object,
    signal: AbortSignal,
    contentType = Array.isArray(patch) ? JSON_PATCH : MERGE_PATCH,
  ): Promise<T> {
    return this.#transport.send<T>({ method: "PATCH", path, body: patch, contentType }, signal);
  }
}

function pathOf<T extends KubeObject>(resource: Resource<T>, place: Partial<Place>): string {
  const parts = [resource.prefix];
  if (place.namespace !== undefined) parts.push("namespaces", encodeURIComponent(place.namespace));
  parts.push(resource.plural);
  if (place.name !== undefined) parts.push(encodeURIComponent(place.name));
  return parts.join("/");
}

function queryOf(selection: Selection): URLSearchParams {
  const query = new URLSearchParams();
  if (selection.fieldSelector !== undefined) query.set("fieldSelector", selection.fieldSelector);
  if (selection.labelSelector !== undefined) query.set("labelSelector", selection.labelSelector);
  return query;
}

function eventOf<T>(line: string): WatchEvent<T> {
  let event: WatchEvent<T> | { type: "ERROR"; object: { code?: number; message?: string } };
  try {
    event = JSON.parse(line);
  } catch (error) {
    throw new Failure("remote", "the watch sent a line that is not JSON", error);
  }
  if (event.type !== "ERROR") return event;
  const { code, message = "no reason given" } = event.object;
  throw new Failure(code === 410 ? "stale" : "remote", `watch: ${message}`);
}

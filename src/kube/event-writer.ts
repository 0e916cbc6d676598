import { createHash, randomBytes } from "node:crypto";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import type { KubeClient } from "./kube-client.ts";
import { EVENTS } from "./resource.ts";

export interface Regarding {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
}

export interface EventText {
  readonly type: "Normal" | "Warning";
  /** CamelCase, for machines. */
  readonly reason: string;
  /** What the driver was doing, CamelCase. */
  readonly action: string;
  /** For people. */
  readonly note: string;
}

const NOTE_CHARS_MAX = 1_000;
const SAME_AGAIN_MS = 300_000;
/** As many as there are pods in a large cluster. */
const REMEMBERED_MAX = 10_000;

/** Tells a user in `kubectl describe` what happens. Best effort: an event never fails its cause. */
export class EventWriter {
  readonly #client: Pick<KubeClient, "create">;
  readonly #log: Log;
  readonly #component: { readonly controller: string; readonly instance: string };
  readonly #lastMs = new Map<string, number>();

  constructor(
    client: Pick<KubeClient, "create">,
    component: { readonly controller: string; readonly instance: string },
    log: Log,
  ) {
    this.#client = client;
    this.#component = component;
    this.#log = log;
  }

  async write(regarding: Regarding, text: EventText, signal: AbortSignal): Promise<void> {
    const words = `${regarding.uid} ${text.reason} ${text.note}`;
    const what = createHash("sha256").update(words).digest("base64"); // words may be long
    if (!this.#isNew(what, Date.now())) return;
    const namespace = regarding.namespace ?? "default";
    const name = `${regarding.name.slice(0, 200)}.${randomBytes(8).toString("hex")}`;
    const event = {
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { name, namespace },
      eventTime: new Date().toISOString().replace("Z", "000Z"), // microseconds
      reportingController: this.#component.controller,
      reportingInstance: this.#component.instance.slice(0, 128),
      type: text.type,
      reason: text.reason,
      action: text.action,
      note: text.note.slice(0, NOTE_CHARS_MAX),
      regarding,
    };
    try {
      await this.#client.create(EVENTS, event, signal);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.#log.debug({ err: error.message, reason: text.reason }, "event not written");
    }
  }

  /**
   * The same words about the same object are said once in five minutes. Where so much is to be said
   * that nobody could remember it, the rest is left unsaid: it would be said again and again.
   */
  #isNew(what: string, nowMs: number): boolean {
    for (const [said, lastMs] of this.#lastMs) {
      if (nowMs - lastMs < SAME_AGAIN_MS) break; // the first is the oldest
      this.#lastMs.delete(said);
    }
    if (this.#lastMs.has(what) || this.#lastMs.size >= REMEMBERED_MAX) return false;
    this.#lastMs.set(what, nowMs);
    return true;
  }
}

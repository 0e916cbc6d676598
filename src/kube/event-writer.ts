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

/** A write of an event that is under way or has succeeded. */
interface Attempt {
  readonly atMs: number;
  readonly isWritten: Promise<boolean>;
}

/** Tells a user in `kubectl describe` what happens. Best effort: an event never fails its cause. */
export class EventWriter {
  readonly #client: Pick<KubeClient, "create">;
  readonly #log: Log;
  readonly #component: { readonly controller: string; readonly instance: string };
  /** Attempts of the last five minutes by a hash of their words, the oldest first. */
  readonly #recent = new Map<string, Attempt>();

  constructor(
    client: Pick<KubeClient, "create">,
    component: { readonly controller: string; readonly instance: string },
    log: Log,
  ) {
    this.#client = client;
    this.#component = component;
    this.#log = log;
  }

  /** Writes the event; a failure is only logged. */
  async write(regarding: Regarding, text: EventText, signal: AbortSignal): Promise<void> {
    await this.tryWrite(regarding, text, signal);
  }

  /**
   * Resolves with whether the event is written, now or in the last five minutes. The API server
   * gets the same words about the same object once in that time, and after a failure once more for
   * each further call. Beyond REMEMBERED_MAX other events are dropped: they would be repeated
   * without end.
   */
  async tryWrite(regarding: Regarding, text: EventText, signal: AbortSignal): Promise<boolean> {
    const words = `${regarding.uid} ${text.reason} ${text.note}`;
    const key = createHash("sha256").update(words).digest("base64"); // words may be long
    const nowMs = Date.now();
    this.#forgetBefore(nowMs - SAME_AGAIN_MS);
    const earlier = this.#recent.get(key);
    if (earlier !== undefined) return earlier.isWritten;
    if (this.#recent.size >= REMEMBERED_MAX) return false;
    const attempt = { atMs: nowMs, isWritten: this.#create(regarding, text, signal) };
    this.#recent.set(key, attempt);
    const isWritten = await attempt.isWritten;
    if (!isWritten && this.#recent.get(key) === attempt) this.#recent.delete(key);
    return isWritten;
  }

  async #create(regarding: Regarding, text: EventText, signal: AbortSignal): Promise<boolean> {
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
      return true;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.#log.debug({ err: error, reason: text.reason }, "event not written");
      return false;
    }
  }

  #forgetBefore(oldestMs: number): void {
    for (const [key, { atMs }] of this.#recent) {
      if (atMs > oldestMs) break; // the first is the oldest
      this.#recent.delete(key);
    }
  }
}

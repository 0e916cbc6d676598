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

/** The API server counts the bytes of UTF-8, although its error speaks of characters. */
const NOTE_BYTES_MAX = 1_024;
const ELLIPSIS = "…";
/** With the dot and the random part, the event's name stays below the 253 that are allowed. */
const OBJECT_NAME_CHARS_MAX = 200;
const SAME_AGAIN_MS = 300_000;
/** As many as there are pods in a large cluster. */
const REMEMBERED_MAX = 10_000;

/** An event refused as invalid would be refused again; after another failure a retry may help. */
type Outcome = "written" | "refused" | "failed";

/** A write of an event that is under way, has succeeded or can't succeed. */
interface Attempt {
  readonly atMs: number;
  readonly outcome: Promise<Outcome>;
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
   * each further call, unless it refused the event as invalid. Beyond REMEMBERED_MAX other events
   * are dropped: they would be repeated without end.
   */
  async tryWrite(regarding: Regarding, text: EventText, signal: AbortSignal): Promise<boolean> {
    const words = `${regarding.uid} ${text.reason} ${text.note}`;
    const key = createHash("sha256").update(words).digest("base64"); // words may be long
    const nowMs = Date.now();
    this.#forgetBefore(nowMs - SAME_AGAIN_MS);
    const earlier = this.#recent.get(key);
    if (earlier !== undefined) return (await earlier.outcome) === "written";
    if (this.#recent.size >= REMEMBERED_MAX) return false;
    const attempt = { atMs: nowMs, outcome: this.#create(regarding, text, signal) };
    this.#recent.set(key, attempt);
    const outcome = await attempt.outcome;
    if (outcome === "failed" && this.#recent.get(key) === attempt) this.#recent.delete(key);
    return outcome === "written";
  }

  async #create(regarding: Regarding, text: EventText, signal: AbortSignal): Promise<Outcome> {
    const namespace = regarding.namespace ?? "default";
    const name = `${shortName(regarding.name)}.${randomBytes(8).toString("hex")}`;
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
      note: shortNote(text.note),
      regarding,
    };
    try {
      await this.#client.create(EVENTS, event, signal);
      return "written";
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const isRefused = error.kind === "invalid";
      const level = isRefused ? "warn" : "debug";
      this.#log[level]({ err: error, reason: text.reason }, "event not written");
      return isRefused ? "refused" : "failed";
    }
  }

  #forgetBefore(oldestMs: number): void {
    for (const [key, { atMs }] of this.#recent) {
      if (atMs > oldestMs) break; // the first is the oldest
      this.#recent.delete(key);
    }
  }
}

/** A legal name may be cut at any character but these: no label of an event's name ends in them. */
function shortName(name: string): string {
  return name.slice(0, OBJECT_NAME_CHARS_MAX).replace(/[-.]+$/, "");
}

/** Cut between two code points, never inside one. */
function shortNote(note: string): string {
  const bytes = Buffer.from(note);
  if (bytes.length <= NOTE_BYTES_MAX) return note;
  let end = NOTE_BYTES_MAX - Buffer.byteLength(ELLIPSIS);
  while (isContinuation(bytes[end])) end -= 1;
  return `${bytes.toString("utf8", 0, end)}${ELLIPSIS}`;
}

/** Of UTF-8: a byte of a code point that is not the first one. */
function isContinuation(byte = 0): boolean {
  return (byte & 0xc0) === 0x80;
}

import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { Failure } from "../base/failure.ts";
import type { FailureKind } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { within } from "../base/within.ts";
import type { Credentials, HandoverNote, MountSpec } from "../handover/messages.ts";
import type { MounterLink } from "../handover/mounter-link.ts";
import type { FuseConnection } from "../sys/fuse-connection.ts";
import { closeMountFds, listOf } from "../sys/mount-fds.ts";
import type { MountFds } from "../sys/mount-fds.ts";
import type { MountpointPod } from "./cluster-view.ts";
import { finishBy, REKEY_WITHIN_MS } from "./kept-mount.ts";
import type { KeptMount, MountNews, MountState, Server, Source } from "./kept-mount.ts";
import type { GiveUpTimer } from "./give-up-timer.ts";

/** What a mount is, whoever serves it. */
export interface HeldParts {
  readonly mountId: string;
  readonly source: Source;
  readonly fds: MountFds;
  readonly connection: FuseConnection | undefined;
}

/** What a held mount needs of the world around it. */
export interface Surroundings {
  /** The pods that could serve it next. */
  candidates(mount: HeldMount): readonly MountpointPod[];
  /** The next mounter that could serve it: another than the one that does. */
  untilMounter(mount: HeldMount, signal: AbortSignal): Promise<Server>;
  /** Resolves when a pod is there that is to serve it instead of the present one. */
  untilSuccessor(mount: HeldMount, signal: AbortSignal): Promise<void>;
  isMounted(source: Source): boolean;
  onNews(news: MountNews): void;
  onEnd(mount: KeptMount): void;
  readonly giveUpTimer: GiveUpTimer;
  readonly log: Log;
}

/** By pod, why it can never go on with the mount. */
type Refusals = Map<string, string>;

const USELESS: ReadonlySet<FailureKind> = new Set(["busy", "timeout"]);
const HAND_OVER_WITHIN_MS = 60_000;
const DIE_WITHIN_MS = 5_000;
const FIRST_PAUSE_MS = 100;
const PAUSE_MAX_MS = 5_000;

/**
 * A mount of which this process holds copies of the descriptors, so that it outlives the container
 * that serves it: when that has ended, or another is to take its place, it is handed on.
 */
export class HeldMount implements KeptMount {
  readonly mountId: string;
  readonly source: Source;
  readonly #parts: HeldParts;
  readonly #around: Surroundings;
  readonly #ending = new AbortController();
  #spec: MountSpec;
  #pod: MountpointPod;
  #link: MounterLink;
  #state: MountState = { is: "served", recoveries: 0 };
  #recoveries = 0;
  /** Why the last hand-over failed, while the mount waits for an engine. */
  #lateCause: string | undefined;
  #isFinishing = false;
  #owesKeys = false;
  #served = Promise.withResolvers<void>();

  /** Owns descriptors, handle and link from now on. */
  constructor(parts: HeldParts, spec: MountSpec, server: Server, around: Surroundings) {
    this.mountId = parts.mountId;
    this.source = parts.source;
    this.#parts = parts;
    this.#spec = spec;
    this.#around = around;
    this.#pod = server.pod;
    this.#link = this.#listenTo(server.link);
    this.#served.resolve();
    void this.#tend(); // rejects only for a bug, which ends the process
  }

  get pod(): MountpointPod {
    return this.#pod;
  }

  /** Its mounter is there and talks to us. */
  get isLinked(): boolean {
    return this.#link.isOpen;
  }

  get state(): MountState {
    return this.#state;
  }

  get isEnding(): boolean {
    return this.#ending.signal.aborted;
  }

  /** Does nothing, and waits for nothing, while the keys are the same. */
  async rekey(credentials: Credentials | null): Promise<void> {
    if (this.isEnding) return;
    if (!this.#owesKeys && isDeepStrictEqual(this.#spec.credentials, credentials)) return;
    const spec = { ...this.#spec, credentials };
    this.#spec = spec;
    this.#owesKeys = true; // until the mounter has them
    await this.#link.rekey(credentials, AbortSignal.timeout(REKEY_WITHIN_MS));
    if (this.#spec === spec) this.#owesKeys = false;
    this.#around.log.info({ mount: this.mountId }, "the engine has other keys");
  }

  /** Resolves when an engine serves it, and its mounter hears at once what it is told. */
  async untilServed(signal: AbortSignal): Promise<void> {
    const either = AbortSignal.any([signal, this.#ending.signal]);
    const late = () => new Failure("timeout", `nobody serves ${this.mountId} in time`);
    await within(this.#served.promise, either, late);
    await within(this.#link.untilQuiet(), either, late);
  }

  /**
   * Everything acknowledged goes to S3, then the mount ends. The word is sent before this returns:
   * an engine whose mount was the last one ends by itself, and nobody could be asked any more.
   */
  async finish(signal: AbortSignal): Promise<void> {
    if (this.#ending.signal.aborted) {
      throw new Failure("remote", `the mount ${this.mountId} has ended already`);
    }
    this.#isFinishing = true;
    this.#ending.abort();
    await finishBy(this.#link, this.#parts.connection, signal).finally(() => this.#release());
  }

  /** Closes our copies, without a word: whoever serves it goes on. */
  letGo(): void {
    this.#ending.abort();
  }

  #listenTo(link: MounterLink): MounterLink {
    link.onNote = (note) => this.#take(note);
    return link;
  }

  #take(note: HandoverNote): void {
    switch (note.note) {
      case "lost":
        return this.#isLost(note.cause);
      case "recovered":
        return this.#isServed("recovered", note.cause, note.pauseMs);
      case "given-up":
        return this.#giveUp(note.cause);
      default:
        return note satisfies never;
    }
  }

  #isLost(cause: string): void {
    if (this.#state.is !== "served") return;
    this.#state = { is: "waiting", sinceMs: Date.now(), cause };
    this.#served = Promise.withResolvers<void>();
  }

  /** The condition of the volume names the cause: somebody may be able to correct it. */
  #isLate(cause: string): void {
    this.#lateCause = cause;
    if (this.#state.is === "waiting") this.#state = { ...this.#state, cause };
  }

  #isServed(what: "recovered" | "handed over", cause: string, pauseMs: number): void {
    this.#recoveries += 1;
    this.#lateCause = undefined;
    this.#state = { is: "served", recoveries: this.#recoveries };
    this.#served.resolve();
    this.#tell(what, cause, pauseMs);
  }

  #tell(what: MountNews["what"], cause: string, pauseMs: number): void {
    const { mountId, source } = this;
    const pod = this.#pod;
    this.#around.onNews({
      what,
      mountId,
      source,
      pod,
      cause,
      pauseMs,
      recoveries: this.#recoveries,
    });
  }

  /** Who waits for a dead engine waits uninterruptibly: at some point it has to end. */
  #giveUp(cause: string): void {
    if (this.#ending.signal.aborted) return;
    this.#state = { is: "given up", cause };
    this.#parts.connection?.abort();
    this.#tell("given up", cause, 0);
    this.#ending.abort();
  }

  async #tend(): Promise<void> {
    const { signal } = this.#ending;
    const ended = new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    while (!signal.aborted) {
      using round = abortable(signal);
      const successor = this.#around.untilSuccessor(this, round.signal).catch(() => {});
      await Promise.race([this.#link.closed, successor, ended]);
      if (!signal.aborted) await this.#moveOn();
    }
    if (!this.#isFinishing) this.#release();
  }

  /** Hands the mount to the next mounter, whenever it comes, until the timer expires. */
  async #moveOn(): Promise<void> {
    if (!this.#around.isMounted(this.source)) return this.#ending.abort(); // somebody took it off
    using round = abortable(this.#ending.signal);
    const startedMs = performance.now();
    const refusals: Refusals = new Map();
    void this.#link.closed.then(() => this.#untilGivenUp(round.signal));
    for (let failures = 0; !round.signal.aborted; failures += 1) {
      try {
        await this.#handOn(startedMs, refusals, round.signal);
        return;
      } catch (error) {
        if (round.signal.aborted) return;
        const hopeless = this.#refusalOfAll(refusals);
        if (hopeless !== undefined) return this.#giveUp(hopeless);
        if (error instanceof Failure) this.#isLate(error.message);
        const fields = { mount: this.mountId, failures, err: error };
        this.#around.log.warn(fields, "the mount could not be handed on yet");
        const pauseMs = Math.min(PAUSE_MAX_MS, FIRST_PAUSE_MS * 2 ** failures);
        await sleep(pauseMs, undefined, { signal: round.signal }).catch(() => {});
      }
    }
  }

  /** All who could go on have said that nobody can: with --no-journal, or after a damage. */
  #refusalOfAll(refusals: Refusals): string | undefined {
    const isOpen = this.#around.candidates(this).some(({ uid }) => !refusals.has(uid));
    return isOpen ? undefined : Array.from(refusals.values()).at(-1);
  }

  async #untilGivenUp(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return; // another link serves it by now
    this.#isLost("the Mountpoint Pod's container has ended");
    const late = await this.#around.giveUpTimer.expired(this.source, signal);
    if (late === undefined) return;
    this.#giveUp(this.#lateCause === undefined ? late : `${late}: ${this.#lateCause}`);
  }

  async #handOn(startedMs: number, refusals: Refusals, signal: AbortSignal): Promise<void> {
    const next = await this.#around.untilMounter(this, signal);
    await using rollback = new AsyncDisposableStack();
    rollback.use(next.link);
    signal.throwIfAborted(); // it is finishing: the present mounter is needed
    const wasOpen = this.#link.isOpen;
    const fencedMs = performance.now();
    this.#isLost("the Mountpoint Pod is replaced");
    await this.#fence();
    const spec = this.#spec;
    const fds = listOf(this.#parts.fds);
    const limit = AbortSignal.any([signal, AbortSignal.timeout(HAND_OVER_WITHIN_MS)]);
    try {
      await next.link.mount(spec, fds, { resume: true }, limit);
    } catch (error) {
      // A container that is too small refuses too, but as "refused": its limit can be corrected.
      const isFinal = error instanceof Failure && error.kind === "invalid";
      if (isFinal) refusals.set(next.pod.uid, error.message);
      if (!signal.aborted) await this.#afterRefusal(error, next.link, signal);
      throw error; // when we leave, whoever has the descriptors now keeps them
    }
    rollback.move();
    this.#owesKeys = this.#spec !== spec;
    this.#link[Symbol.dispose]();
    this.#link = this.#listenTo(next.link);
    const cause = wasOpen ? "replaced by a successor" : "the container has ended";
    this.#pod = next.pod;
    this.#isServed("handed over", cause, performance.now() - (wasOpen ? fencedMs : startedMs));
  }

  /** Two engines on one connection would spoil it: the old ones are dead before there are new. */
  async #fence(): Promise<void> {
    if (await this.#link.process.kill(DIE_WITHIN_MS)) return;
    if (this.#link.isOpen) this.#served.resolve();
    throw new Failure("timeout", `the mounter of ${this.#pod.name} does not die`);
  }

  /** One that has said no can be asked again. Any other may have the descriptors: it has to die. */
  async #afterRefusal(error: unknown, link: MounterLink, signal: AbortSignal): Promise<void> {
    const hasAnswered = error instanceof Failure && link.isOpen && !USELESS.has(error.kind);
    if (hasAnswered) return;
    while (!signal.aborted && !(await link.process.kill(DIE_WITHIN_MS))) {
      this.#around.log.error({ mount: this.mountId }, "a mounter that has the mount does not die");
    }
  }

  /** By finish(), or else when it is tended no more: never by both. */
  #release(): void {
    this.#link[Symbol.dispose]();
    this.#parts.connection?.[Symbol.dispose]();
    closeMountFds(this.#parts.fds);
    this.#around.onEnd(this);
  }
}

/** A signal that ends with the block, or before with the outer one. */
function abortable(outer: AbortSignal): Disposable & { readonly signal: AbortSignal } {
  const own = new AbortController();
  const signal = AbortSignal.any([outer, own.signal]);
  return { signal, [Symbol.dispose]: () => own.abort() };
}

import { isDeepStrictEqual } from "node:util";
import { Failure } from "../base/failure.ts";
import type { Credentials } from "../handover/messages.ts";
import type { MounterLink } from "../handover/mounter-link.ts";
import type { MountpointPod } from "./cluster-view.ts";
import type { HeldParts, Surroundings } from "./held-mount.ts";
import { finishBy, REKEY_WITHIN_MS } from "./kept-mount.ts";
import type { KeptMount, MountState, Server, Source } from "./kept-mount.ts";

/** From the end of its connection to its own. */
const DIE_WITHIN_MS = 2_000;

type Around = Pick<Surroundings, "isMounted" | "onNews" | "onEnd" | "log">;

/**
 * A mount whose descriptor was given away, since its engine can't be followed by another: it lives
 * and dies with its container. Here is the way to its mounter, and what that has said last.
 */
export class GivenMount implements KeptMount {
  readonly mountId: string;
  readonly source: Source;
  readonly pod: MountpointPod;
  readonly #link: MounterLink;
  readonly #connection: HeldParts["connection"];
  readonly #around: Around;
  readonly #ending = new AbortController();
  #credentials: Credentials | null;
  #state: MountState = { is: "served", recoveries: 0 };
  #isFinishing = false;

  /** Owns handle and link from now on. */
  constructor(
    parts: Omit<HeldParts, "fds">,
    credentials: Credentials | null,
    { pod, link }: Server,
    around: Around,
  ) {
    this.mountId = parts.mountId;
    this.source = parts.source;
    this.pod = pod;
    this.#link = link;
    this.#connection = parts.connection;
    this.#credentials = credentials;
    this.#around = around;
    link.onNote = (note) => {
      if (note.note === "given-up") this.#lose(note.cause);
    };
    void this.#tend(); // rejects only for a bug, which ends the process
  }

  get state(): MountState {
    return this.#state;
  }

  get isEnding(): boolean {
    return this.#ending.signal.aborted;
  }

  /** Does nothing while the keys are the same; those that it did not take are sent again. */
  async rekey(credentials: Credentials | null): Promise<void> {
    if (this.isEnding || isDeepStrictEqual(this.#credentials, credentials)) return;
    await this.#link.rekey(credentials, AbortSignal.timeout(REKEY_WITHIN_MS));
    this.#credentials = credentials;
    this.#around.log.info({ mount: this.mountId }, "other keys lie ready for the engine");
  }

  /** Its one engine serves it, or nobody ever will. */
  async untilServed(): Promise<void> {
    await this.#link.untilQuiet();
  }

  /** As of a held one: the word is sent before this returns. */
  async finish(signal: AbortSignal): Promise<void> {
    if (this.#ending.signal.aborted) {
      throw new Failure("remote", `the mount ${this.mountId} has ended already`);
    }
    this.#isFinishing = true;
    this.#ending.abort();
    await finishBy(this.#link, this.#connection, signal).finally(() => this.#release());
  }

  letGo(): void {
    this.#ending.abort();
  }

  async #tend(): Promise<void> {
    const { signal } = this.#ending;
    const ended = new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    await Promise.race([this.#link.closed, ended]);
    // One that is only deaf may go on to serve: whoever needs to know will ask it again.
    if (!signal.aborted && (await this.#link.process.hasEnded(DIE_WITHIN_MS))) {
      this.#lose("the Mountpoint Pod's container has ended");
    }
    if (!this.#isFinishing) this.#release();
  }

  #lose(cause: string): void {
    if (this.#ending.signal.aborted) return;
    const { mountId, source, pod } = this;
    this.#state = { is: "given up", cause };
    if (this.#around.isMounted(source)) {
      const numbers = { pauseMs: 0, recoveries: 0 };
      this.#around.onNews({ what: "given up", mountId, source, pod, cause, ...numbers });
    }
    this.#ending.abort();
  }

  /** By finish(), or else when it is tended no more: never by both. */
  #release(): void {
    this.#link[Symbol.dispose]();
    this.#connection?.[Symbol.dispose]();
    this.#around.onEnd(this);
  }
}

import type { Log } from "../base/log.ts";
import type { CsiDriver } from "../kube/resource.ts";
import type { Attachment, Volume } from "./facts.ts";

/** What the kubelets read of the CSIDriver object. */
export interface DriverFacts {
  readonly requiresRepublish: boolean;
}

export interface RepublishOptions {
  readonly write: (requiresRepublish: boolean, signal: AbortSignal) => Promise<void>;
  /** Has `work` called, by one at a time, and again when it fails. */
  readonly enqueue: () => void;
  readonly log: Log;
}

export function driverOf({ spec }: CsiDriver): DriverFacts {
  return { requiresRepublish: spec.requiresRepublish === true };
}

/**
 * Kubelets repeat the publish of volumes of running pods while the CSIDriver object says so. It is
 * said as long as somebody needs it: a volume whose keys come from a Secret, which may change, or
 * a mount that has lost an engine, and might need to be made anew. Each repetition takes one of the
 * turns, ten a second, in which a kubelet gives a volume to those who wait for it.
 */
export class RepublishKeeper {
  readonly #options: RepublishOptions;
  /** Names of volumes and attachments. */
  readonly #withSecret = new Set<string>();
  readonly #troubled = new Set<string>();
  /** Undefined while there is no such object: the chart makes it. */
  #driver: DriverFacts | undefined;

  constructor(options: RepublishOptions) {
    this.#options = options;
  }

  volumeChanged(name: string, now: Volume | undefined): void {
    this.#note(this.#withSecret, name, now?.bringsSecret === true);
  }

  attachmentChanged(name: string, now: Attachment | undefined): void {
    this.#note(this.#troubled, name, now?.reported !== undefined);
  }

  driverChanged(now: DriverFacts | undefined): void {
    this.#driver = now;
    this.#options.enqueue();
  }

  async work(signal: AbortSignal): Promise<void> {
    const [volumes, attachments] = [this.#withSecret.size, this.#troubled.size];
    const needed = volumes + attachments > 0;
    if (this.#driver === undefined || this.#driver.requiresRepublish === needed) return;
    await this.#options.write(needed, signal);
    const fields = { requiresRepublish: needed, volumes, attachments };
    this.#options.log.info(fields, "CSIDriver requiresRepublish updated");
  }

  #note(names: Set<string>, name: string, isOne: boolean): void {
    if (names.has(name) === isOne) return;
    if (isOne) names.add(name);
    else names.delete(name);
    this.#options.enqueue();
  }
}

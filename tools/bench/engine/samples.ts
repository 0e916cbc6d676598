import { median } from "../median.ts";
import type { Figures } from "../part.ts";
import { figureOf, OURS, PEERS } from "./figure-names.ts";

/** What one go gave: names of figures without the case, and their values. */
export type Sample = Readonly<Record<string, number>>;

export interface Amount {
  readonly bytes?: number;
  readonly operations?: number;
}

/** Samples and failures by case and contender; their medians are the figures. */
export class Samples {
  readonly #lists = new Map<string, Sample[]>();
  readonly #failures = new Map<string, string>();

  add(of: string, by: string, sample: Sample): void {
    const list = this.#lists.get(`${of} ${by}`) ?? [];
    this.#lists.set(`${of} ${by}`, [...list, sample]);
  }

  /** The first one is kept: the others mostly repeat it. */
  fail(of: string, by: string, error: unknown): void {
    const said = error instanceof Error ? error.message : String(error);
    const text = said.replaceAll(/\s+/g, " ").trim();
    if (!this.#failures.has(`${of} ${by}`)) this.#failures.set(`${of} ${by}`, text);
  }

  /**
   * `<case>_vs_<peer>` says how many times as fast we are. A contender that failed has `…_failed`
   * instead of figures, and no ratio.
   */
  figuresOf(of: string, amount: Amount = {}): Figures {
    const figures: Record<string, number | string> = {};
    for (const by of [OURS, ...PEERS]) {
      const name = (what: string) => figureOf(of, by, what);
      const failure = this.#failures.get(`${of} ${by}`);
      const medians = failure === undefined ? this.#medians(of, by) : {};
      for (const [what, value] of Object.entries(medians)) figures[name(what)] = value;
      if (failure !== undefined) figures[name("failed")] = failure;
      const s = medians["s"];
      if (s === undefined) continue;
      if (amount.bytes !== undefined) figures[name("gbps")] = amount.bytes / s / 1e9;
      if (amount.operations !== undefined) figures[name("ops_per_s")] = amount.operations / s;
    }
    const ours = figures[`${of}_s`];
    for (const peer of PEERS) {
      const theirs = figures[figureOf(of, peer, "s")];
      if (typeof ours !== "number" || typeof theirs !== "number") continue;
      figures[`${of}_vs_${peer}`] = theirs / ours;
    }
    return figures;
  }

  #medians(of: string, by: string): Sample {
    const list = this.#lists.get(`${of} ${by}`) ?? [];
    const names = new Set(list.flatMap((sample) => Object.keys(sample)));
    return Object.fromEntries(
      [...names].map((name) => [
        name,
        median(list.flatMap((sample) => (name in sample ? [sample[name] ?? 0] : []))),
      ]),
    );
  }
}

/** The figures of a part: flat, each name with its unit (`node_ready_ms`). */
export type Figures = Readonly<Record<string, number | string>>;

/** One benchmark: a file in tools/bench/parts/, named as the part is. */
export interface Part {
  readonly name: string;
  /** One line, shown above its table. */
  readonly description: string;
  /** Measures; `progress` takes a few words on where it is. */
  readonly run: (progress: (text: string) => void) => Promise<Figures>;
  /** The table that people see, where one row per figure would be too long. */
  readonly table?: (figures: Figures) => string;
  /** What goes to docs/benchmarks/ besides: file name → text, made from the whole report. */
  readonly pages?: (report: Figures) => Readonly<Record<string, string>>;
}

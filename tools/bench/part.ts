/** The figures of a part: flat, each name with its unit (`node_ready_ms`). */
export type Figures = Readonly<Record<string, number | string>>;

/** One benchmark: a file in tools/bench/parts/, named as the part is. */
export interface Part {
  readonly name: string;
  /** One line, shown above its table. */
  readonly description: string;
  /** Measures; `progress` takes a few words on where it is. */
  readonly run: (progress: (text: string) => void) => Promise<Figures>;
}

import { parseArgs } from "node:util";
import { Failure } from "../base/failure.ts";
import { OPTION_TABLE, OPTIONS } from "./option-table.ts";
import type { OptionName } from "./option-table.ts";

/** The options of a command line, each known and with a value if it needs one. */
export type Values = Readonly<Partial<Record<OptionName, string | boolean | (string | boolean)[]>>>;

export function splitCommandLine(argv: readonly string[]): {
  values: Values;
  positionals: string[];
} {
  try {
    return parseArgs({
      args: [...argv],
      options: OPTION_TABLE,
      strict: true,
      allowPositionals: true,
    });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const [sentence = error.message] = error.message.split(". ");
    throw new Failure("invalid", `${sentence} (see --help)`, error);
  }
}

export function isOptionName(name: string): name is OptionName {
  return OPTIONS.has(name);
}

export function text(values: Values, name: OptionName): string | undefined {
  const given = values[name];
  return typeof given === "string" ? given : undefined;
}

/** Of an option that may be repeated. */
export function texts(values: Values, name: OptionName): string[] {
  const given = values[name];
  return Array.isArray(given) ? given.filter((one) => typeof one === "string") : [];
}

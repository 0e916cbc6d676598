import { parseArgs } from "node:util";
import type { ParseArgsOptionsConfig } from "node:util";
import { Failure } from "./failure.ts";

/** What a value has to be. Zod's schemas are such; a role that has to start fast has its own. */
export interface Schema<T = unknown> {
  safeParse(value: unknown): Verdict<T>;
}
export type Verdict<T> =
  | { readonly success: true; readonly data: T }
  | { readonly success: false; readonly error: Complaint };
interface Complaint {
  readonly issues: readonly { readonly message: string }[];
}

/** One setting: `nodeId` is the flag --node-id and the environment variable S3CSI_NODE_ID. */
export interface Flag {
  readonly schema: Schema;
  readonly placeholder: string;
  readonly help: string;
}
export type Flags = Readonly<Record<string, Flag>>;
export type ConfigOf<F extends Flags> = {
  readonly [K in keyof F]: F[K]["schema"] extends Schema<infer T> ? T : never;
};
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Flag, then environment, then default. Read once at start and frozen; every wrong value is named.
 */
export function readConfig<F extends Flags>(
  flags: F,
  argv: readonly string[],
  env: Environment,
): ConfigOf<F> {
  const given = parseFlags(flags, argv);
  const config: Record<string, unknown> = {};
  const wrong: string[] = [];
  for (const [key, flag] of Object.entries(flags)) {
    const value = given[flagNameOf(key)] ?? env[variableNameOf(key)];
    const result = flag.schema.safeParse(value);
    if (result.success) config[key] = result.data;
    else
      wrong.push(`--${flagNameOf(key)} (${variableNameOf(key)}): ${wordsFor(value, result.error)}`);
  }
  if (wrong.length > 0) throw new Failure("invalid", wrong.join("\n"));
  return Object.freeze(config) as ConfigOf<F>;
}

/** The lines of --help that describe the flags. */
export function flagsHelp(flags: Flags): string {
  const rows = Object.entries(flags).map(([key, { placeholder, help }]): [string, string] => [
    `  --${flagNameOf(key)} ${placeholder}`,
    help,
  ]);
  const width = Math.max(...rows.map(([left]) => left.length));
  const lines = rows.map(([left, right]) => `${left.padEnd(width)}  ${right}`);
  return [...lines, "", "Each flag can be given as S3CSI_<NAME> in the environment too."].join(
    "\n",
  );
}

function parseFlags(flags: Flags, argv: readonly string[]): Record<string, string | undefined> {
  const options: ParseArgsOptionsConfig = {};
  for (const key of Object.keys(flags)) options[flagNameOf(key)] = { type: "string" };
  try {
    const { values } = parseArgs({ args: [...argv], options, strict: true });
    return values as Record<string, string | undefined>;
  } catch (error) {
    throw new Failure("invalid", (error as Error).message, error);
  }
}

function wordsFor(value: string | undefined, error: Complaint): string {
  const issues = error.issues.map((issue) => issue.message).join("; ");
  return value === undefined ? `missing; ${issues}` : `"${value}": ${issues}`;
}

function flagNameOf(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function variableNameOf(key: string): string {
  return `S3CSI_${flagNameOf(key).toUpperCase().replaceAll("-", "_")}`;
}

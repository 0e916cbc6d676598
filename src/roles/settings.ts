import { flagsHelp, readConfig } from "../base/flags.ts";
import type { ConfigOf, Environment, Flags } from "../base/flags.ts";
import { LOG_LEVELS } from "../base/log.ts";
import { oneOf } from "../base/plain-schema.ts";
import { VERSION } from "../base/version.ts";

export const LOG_FLAGS = {
  logLevel: {
    schema: oneOf(LOG_LEVELS, "info"),
    placeholder: "LEVEL",
    help: `how much to log: ${LOG_LEVELS.join(", ")}; default info`,
  },
} as const satisfies Flags;

export interface Named<F extends Flags> {
  readonly name: string;
  readonly summary: string;
  readonly flags: F & typeof LOG_FLAGS;
}

/** Said twice: of flags that are still open, TypeScript does not see what is among them. */
type Settings<F extends Flags> = ConfigOf<F & typeof LOG_FLAGS> & ConfigOf<typeof LOG_FLAGS>;

/** The settings of a role; undefined when only its help was asked for, which is shown then. */
export function readSettings<F extends Flags>(
  role: Named<F>,
  argv: readonly string[],
  env: Environment,
): Settings<F> | undefined {
  if (argv.includes("--help") || argv.includes("-h")) {
    process.stdout.write(`s3csi ${role.name}: ${role.summary}\n\n${flagsHelp(role.flags)}\n`);
    return undefined;
  }
  return readConfig(role.flags, argv, env);
}

/** What each line of a role's log has. */
export function logFieldsOf({ name }: { readonly name: string }): Record<string, string> {
  return { role: name, version: VERSION };
}

import { pino } from "pino";
import type { Logger, LoggerOptions } from "pino";
import type { LogLevel } from "./log.ts";

/**
 * JSON lines on stdout. `msg` is a constant; facts are fields, under the same name
 * everywhere.
 */
export function createLog(
  level: LogLevel | "silent",
  fields: Readonly<Record<string, string>>,
): Logger {
  const options: LoggerOptions = {
    level,
    base: fields,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label) => ({ level: label }) },
  };
  // At once: what waits in a buffer is lost with a process that ends by _exit(2), or is killed.
  return pino(options, pino.destination({ dest: 1, sync: true }));
}

import { pino } from "pino";
import type { Logger, LoggerOptions } from "pino";

export type Log = Logger;

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * JSON lines on stdout, or in a file. `msg` is a constant; facts are fields, under the same name
 * everywhere.
 */
export function createLog(
  level: LogLevel | "silent",
  fields: Readonly<Record<string, string>>,
  path?: string,
): Log {
  const options: LoggerOptions = {
    level,
    base: fields,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label) => ({ level: label }) },
  };
  if (path === undefined) return pino(options);
  return pino(options, pino.destination({ dest: path, mkdir: true, sync: true }));
}

import { pino } from "pino";
import type { Logger } from "pino";

export type Log = Logger;

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** JSON lines on stdout. `msg` is a constant; facts are fields, under the same name everywhere. */
export function createLog(level: LogLevel, fields: Readonly<Record<string, string>>): Log {
  return pino({
    level,
    base: fields,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label) => ({ level: label }) },
  });
}

import { mkdirSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { LOG_LEVELS } from "./log.ts";
import type { Log, LogLevel } from "./log.ts";

const STDOUT = 1;

/**
 * The same lines as createLog() writes, by the few lines that it takes: applications wait while an
 * engine starts again, and loading pino would be a fifth of that time (decision 9).
 */
export function createLineLog(
  level: LogLevel | "silent",
  fields: Readonly<Record<string, string>>,
  path?: string,
): Log {
  const fd = path === undefined ? STDOUT : openLogFile(path);
  const lowest = level === "silent" ? LOG_LEVELS.length : LOG_LEVELS.indexOf(level);
  const writer = (of: LogLevel) => {
    if (LOG_LEVELS.indexOf(of) < lowest) return () => undefined;
    return (first: object | string, msg?: string) => {
      const facts = typeof first === "string" ? {} : first;
      const line = { level: of, time: new Date().toISOString(), ...fields, ...facts };
      const text = JSON.stringify(
        { ...line, msg: typeof first === "string" ? first : msg },
        (_, value: unknown) => (value instanceof Error ? describeError(value) : value),
      );
      writeLine(fd, `${text}\n`);
    };
  };
  return {
    debug: writer("debug"),
    info: writer("info"),
    warn: writer("warn"),
    error: writer("error"),
  };
}

function openLogFile(path: string): number {
  mkdirSync(dirname(path), { recursive: true });
  return openSync(path, "a");
}

/** A reader that does not keep up, or has gone, costs a line; it must not cost the mount. */
function writeLine(fd: number, text: string): void {
  try {
    writeSync(fd, text);
  } catch {
    // nowhere to say so
  }
}

function describeError(error: Error): object {
  const { name, message, stack, cause } = error;
  const kind = "kind" in error ? { kind: error.kind } : {};
  return { type: name, message, stack, ...kind, ...(cause === undefined ? {} : { cause }) };
}

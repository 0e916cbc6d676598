export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

type Write = {
  (facts: object, msg: string): void;
  (msg: string): void;
};

/** `msg` is a constant; facts are fields, under the same name everywhere. */
export type Log = Readonly<Record<LogLevel, Write>>;

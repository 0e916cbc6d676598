import { StringDecoder } from "node:string_decoder";
import type { Log, LogLevel } from "../base/log.ts";

/** With its JSON a log line stays below the 16 KiB at which container runtimes cut. */
const PIECE_CHARACTERS_MAX = 8_000;
const LEVEL_WORD = /^(?:\S*\d\S*\s+)?\[?(TRACE|DEBUG|INFO|WARN|ERROR)\b/;
const FAILURE_WORD = /^(?:error|thread '.*' panicked)/i;
const LEVELS: Readonly<Record<string, LogLevel>> = {
  TRACE: "debug",
  DEBUG: "debug",
  INFO: "info",
  WARN: "warn",
  ERROR: "error",
};

/**
 * Turns what a program prints into lines of our log, one for each of its own. A line that is too
 * long becomes several, since a program without line ends must not fill this process's memory.
 */
export class ProgramOutput {
  readonly #log: Log;
  readonly #source: string;
  readonly #decoder = new StringDecoder("utf8"); // a chunk may end within a character
  #rest = "";
  /** The rest is not the beginning of its line. */
  #continued = false;
  #level: LogLevel = "info";

  constructor(source: string, log: Log) {
    this.#source = source;
    this.#log = log;
  }

  add(bytes: Buffer): void {
    const lines = (this.#rest + this.#decoder.write(bytes)).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#endLine(line);
    this.#rest = this.#writeFullPieces(this.#rest);
  }

  /** The program may end without a line end. */
  end(): void {
    this.#endLine(this.#rest + this.#decoder.end());
    this.#rest = "";
  }

  #endLine(line: string): void {
    this.#write(this.#writeFullPieces(line).trimEnd());
    this.#continued = false;
  }

  #writeFullPieces(text: string): string {
    let rest = text;
    while (rest.length > PIECE_CHARACTERS_MAX) {
      this.#write(rest.slice(0, PIECE_CHARACTERS_MAX));
      this.#continued = true;
      rest = rest.slice(PIECE_CHARACTERS_MAX);
    }
    return rest;
  }

  #write(text: string): void {
    if (text === "") return;
    if (!this.#continued) this.#level = levelOf(text) ?? this.#level;
    const continued = this.#continued ? { continued: true } : {};
    this.#log[this.#level]({ source: this.#source, text, ...continued }, "output of the engine");
  }
}

/** Undefined: the line does not say, as those of a list of causes; it belongs to the one before. */
function levelOf(text: string): LogLevel | undefined {
  const [, word] = LEVEL_WORD.exec(text) ?? [];
  if (word !== undefined) return LEVELS[word];
  return FAILURE_WORD.test(text) ? "error" : undefined;
}

import { StringDecoder } from "node:string_decoder";
import { Failure } from "./failure.ts";

/** Cuts a stream into lines, wherever the chunks end, and refuses a line that is too long. */
export class LineBuffer {
  readonly #decoder = new StringDecoder("utf8"); // a chunk may end within a character
  readonly #lengthMax: number;
  #rest = "";

  constructor(lengthMax: number) {
    this.#lengthMax = lengthMax;
  }

  *add(bytes: Buffer): Generator<string, void, undefined> {
    const lines = (this.#rest + this.#decoder.write(bytes)).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) yield this.#checked(line);
    this.#checked(this.#rest);
  }

  #checked(line: string): string {
    if (line.length <= this.#lengthMax) return line;
    throw new Failure("invalid", `the peer sent a line of more than ${this.#lengthMax} bytes`);
  }
}

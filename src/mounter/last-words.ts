import { StringDecoder } from "node:string_decoder";

/** What fits into an event of a pod, with room for our own words. */
const CHARACTERS_MAX = 800;

/** The end of what a program has said, as one line. */
export class LastWords {
  readonly #decoder = new StringDecoder("utf8"); // a chunk may end within a character
  #text = "";

  add(bytes: Buffer): void {
    this.#text = (this.#text + this.#decoder.write(bytes)).slice(-CHARACTERS_MAX * 2);
  }

  get text(): string {
    const line = this.#text.replaceAll(/\s+/g, " ").trim();
    return line.length <= CHARACTERS_MAX ? line : `…${line.slice(1 - CHARACTERS_MAX)}`;
  }
}

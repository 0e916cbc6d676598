import type { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";

const LINE_BYTES_MAX = 4096;

/** Decodes `Transfer-Encoding: chunked` piece by piece, however the network cut it. */
export class ChunkedBody {
  readonly #onData: (data: Buffer) => void;
  #state: "size" | "data" | "data-end" | "trailer" | "done" = "size";
  #line = "";
  #leftBytes = 0;

  constructor(onData: (data: Buffer) => void) {
    this.#onData = onData;
  }

  get done(): boolean {
    return this.#state === "done";
  }

  /** Returns how many bytes belonged to the body: fewer than given only at its end. */
  feed(bytes: Buffer): number {
    let at = 0;
    while (at < bytes.length && this.#state !== "done") {
      at = this.#state === "data" ? this.#takeData(bytes, at) : this.#takeLine(bytes, at);
    }
    return at;
  }

  #takeData(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#leftBytes);
    this.#onData(bytes.subarray(at, end));
    this.#leftBytes -= end - at;
    if (this.#leftBytes === 0) this.#state = "data-end";
    return end;
  }

  #takeLine(bytes: Buffer, at: number): number {
    const newline = bytes.indexOf(10, at);
    const end = newline === -1 ? bytes.length : newline + 1;
    this.#line += bytes.toString("latin1", at, end);
    if (this.#line.length > LINE_BYTES_MAX) throw new Failure("remote", "a chunk line too long");
    if (newline !== -1) {
      const line = this.#line.trimEnd();
      this.#line = "";
      this.#endOfLine(line);
    }
    return end;
  }

  #endOfLine(line: string): void {
    if (this.#state === "size") {
      const size = /^([0-9a-fA-F]{1,8})\s*(?:;|$)/.exec(line)?.[1];
      if (size === undefined) throw new Failure("remote", "a malformed chunk from the endpoint");
      this.#leftBytes = Number.parseInt(size, 16);
      this.#state = this.#leftBytes === 0 ? "trailer" : "data";
    } else if (this.#state === "data-end") {
      if (line !== "") throw new Failure("remote", "a chunk longer than it said");
      this.#state = "size";
    } else if (line === "") {
      this.#state = "done";
    }
  }
}

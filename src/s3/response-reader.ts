import { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import { ChunkedBody } from "./chunked-body.ts";
import { framingOf, parseHead } from "./http-head.ts";
import type { HttpHead } from "./http-head.ts";

const NOTHING = Buffer.alloc(0);
const HEAD_BYTES_MAX = 64 * 1024;
/** More than a socket ever gives at once; a TLS socket crashes with a buffer of 2 GiB. */
const DIRECT_BYTES_MAX = 64 * 1024 * 1024;
const COLLECTED_BYTES_MAX = 64 * 1024 * 1024;

/** Where a successful answer's body shall go, and who wants to know how far it is. */
export interface ResponseTarget {
  readonly into: Buffer;
  readonly onFilled: (filledBytes: number) => void;
  /** How much longer than `into` the body may be: the next targets take that. */
  readonly restBytes?: number;
  /** Looks at a successful answer before its body; false: no byte of the body is taken. */
  readonly accepts?: (head: HttpHead) => boolean;
}

export interface HttpResponse extends HttpHead {
  /** Empty when the body went to the target. */
  readonly body: Buffer;
}

/** Reads one response from pieces of any size. Everything malformed is a Failure. */
export class ResponseReader {
  readonly #method: string;
  #target: ResponseTarget | undefined;
  readonly #collected: Buffer[] = [];
  #head: HttpHead | undefined;
  #headBytes = NOTHING;
  #chunked: ChunkedBody | undefined;
  #leftBytes = 0;
  #filledBytes = 0;
  #collectedBytes = 0;
  /** Of the rest, what came in one piece with the last bytes for the target. */
  #early = NOTHING;
  #direct = false;
  #untilClose = false;
  #hasSurplus = false;
  #ended = false;

  constructor(method: string, target: ResponseTarget | undefined) {
    this.#method = method;
    this.#target = target;
  }

  get done(): boolean {
    return this.#ended && this.#early.length === 0;
  }

  /** The target has its share of a body that goes on. */
  get full(): boolean {
    if (!this.#direct || this.#target === undefined || this.done) return false;
    const { into, restBytes = 0 } = this.#target;
    return this.#filledBytes === into.length && restBytes > 0;
  }

  get endsWithConnection(): boolean {
    return this.#untilClose;
  }

  /**
   * The connection can't be used again: bytes follow that are no answer to the next request. The
   * body was not accepted, or the answer must not have one.
   */
  get hasSurplus(): boolean {
    return this.#hasSurplus;
  }

  /** The place for the next bytes from the network, when they need no further look. */
  directTarget(): Buffer | undefined {
    if (!this.#direct || this.full || this.done) return undefined;
    // Without a known length there is no place of the right size. An empty one would make a TLS
    // socket call back for ever.
    if (this.#chunked !== undefined || this.#untilClose) return undefined;
    const sizeBytes = Math.min(this.#leftBytes, DIRECT_BYTES_MAX);
    return this.#target?.into.subarray(this.#filledBytes, this.#filledBytes + sizeBytes);
  }

  /** Once it is full: where the body goes on. */
  goOn(target: ResponseTarget): void {
    const early = this.#early;
    this.#early = NOTHING;
    this.#target = target;
    this.#filledBytes = 0;
    this.#takeBody(early);
  }

  take(bytes: Buffer): void {
    const rest = this.#head === undefined ? this.#takeHead(bytes) : bytes;
    if (rest === undefined) return;
    if (this.#ended) {
      this.#hasSurplus ||= rest.length > 0;
      return;
    }
    if (this.#chunked !== undefined) {
      if (this.#chunked.feed(rest) !== rest.length) throw tooLong();
      this.#ended = this.#chunked.done;
      return;
    }
    if (!this.#untilClose && rest.length > this.#leftBytes) throw tooLong();
    this.#takeBody(rest);
    this.#leftBytes -= rest.length;
    this.#ended = !this.#untilClose && this.#leftBytes === 0;
  }

  response(): HttpResponse {
    if (this.#head === undefined) throw new Failure("remote", "no answer");
    return { ...this.#head, body: Buffer.concat(this.#collected) };
  }

  /** Returns what lies behind the head, once that is complete. */
  #takeHead(bytes: Buffer): Buffer | undefined {
    const all = this.#headBytes.length === 0 ? bytes : Buffer.concat([this.#headBytes, bytes]);
    const end = all.indexOf("\r\n\r\n");
    if (end === -1) {
      if (all.length > HEAD_BYTES_MAX) throw new Failure("remote", "an answer without end");
      this.#headBytes = Buffer.from(all); // the piece is the socket's memory: it will change
      return undefined;
    }
    const head = parseHead(all.toString("latin1", 0, end));
    const rest = all.subarray(end + 4);
    this.#headBytes = NOTHING;
    if (head.status >= 100 && head.status < 200) return this.#takeHead(rest);
    this.#head = head;
    this.#startBody(head);
    return rest;
  }

  #startBody(head: HttpHead): void {
    const framing = framingOf(this.#method, head);
    this.#direct = this.#target !== undefined && head.status >= 200 && head.status < 300;
    if (this.#direct && this.#target?.accepts?.(head) === false) {
      this.#hasSurplus = true;
      this.#direct = false;
      this.#ended = true;
      return;
    }
    if (framing.by === "chunks") {
      this.#chunked = new ChunkedBody((data) => this.#takeBody(data));
    } else if (framing.by === "close") {
      this.#untilClose = true;
    } else {
      const { into = NOTHING, restBytes = 0 } = this.#target ?? {};
      if (this.#direct && framing.sizeBytes > into.length + restBytes) throw tooLong();
      this.#leftBytes = framing.sizeBytes;
      this.#ended = framing.sizeBytes === 0;
    }
  }

  #takeBody(bytes: Buffer): void {
    if (!this.#direct || this.#target === undefined) {
      this.#collectedBytes += bytes.length;
      if (this.#collectedBytes > COLLECTED_BYTES_MAX) throw tooLong();
      this.#collected.push(Buffer.from(bytes));
      return;
    }
    const { into, onFilled, restBytes = 0 } = this.#target;
    const roomBytes = into.length - this.#filledBytes;
    let share = bytes;
    if (bytes.length > roomBytes) {
      share = bytes.subarray(0, roomBytes);
      this.#early = Buffer.concat([this.#early, bytes.subarray(roomBytes)]);
      if (this.#early.length > restBytes) throw tooLong();
    }
    if (share.length === 0) return;
    const at = into.byteOffset + this.#filledBytes;
    const inPlace = share.buffer === into.buffer && share.byteOffset === at;
    if (!inPlace) share.copy(into, this.#filledBytes);
    this.#filledBytes += share.length;
    onFilled(this.#filledBytes);
  }
}

function tooLong(): Failure {
  return new Failure("remote", "the endpoint sent more than it was asked for");
}

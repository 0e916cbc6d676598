import { Failure } from "./failure.ts";

/** A line of a peer: what is wrong with it is told without a word of it, for it may hold a key. */
export function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // Without its cause, which quotes the line.
    throw new Failure("invalid", "the peer sent a line that is not JSON");
  }
}

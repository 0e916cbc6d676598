import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { Journal } from "../../../src/journal/journal.ts";
import { replay } from "../../../src/journal/saved-state.ts";
import { nameOf } from "./request-log.ts";
import type { RequestLog } from "./request-log.ts";

/**
 * What the journal said at each kill: a part that it calls sent must never be sent again. Exact,
 * because the journal is read between the death of one engine and the birth of the next.
 */
export class FinishedParts {
  readonly #log: RequestLog;
  /** Part → how many requests there had been when it was first known to be sent. */
  readonly #sinceRequest = new Map<string, number>();

  constructor(log: RequestLog) {
    this.#log = log;
  }

  look(supervisorPid: number): void {
    for (const part of sentParts(supervisorPid)) {
      if (!this.#sinceRequest.has(part)) this.#sinceRequest.set(part, this.#log.parts.length);
    }
  }

  get known(): number {
    return this.#sinceRequest.size;
  }

  get sentAgain(): number {
    const isAgain = (part: string, index: number) =>
      index >= (this.#sinceRequest.get(part) ?? Infinity);
    return this.#log.parts.filter(({ part }, index) => isAgain(part, index)).length;
  }
}

/** By the supervisor's copy of the journal, which outlives the engine. */
function sentParts(supervisorPid: number): string[] {
  const fds = `/proc/${supervisorPid}/fd`;
  const isJournal = (fd: string) => readlinkSync(`${fds}/${fd}`).includes("s3csi-journal");
  const fd = readdirSync(fds).find(isJournal);
  if (fd === undefined) throw new Error("the supervisor holds no journal");
  const copy = readFileSync(`${fds}/${fd}`);
  const { handles } = replay(Journal.resume(copy, { onFenced: () => undefined }).records);
  return [...handles.values()].flatMap(({ upload: { created, sent } }) =>
    [...sent.keys()].map((part) => nameOf(created?.uploadId ?? "", part)),
  );
}

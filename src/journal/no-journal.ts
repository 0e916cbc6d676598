import type { Journal } from "./journal.ts";

/** Notes nothing: what the engine knows ends with its process. */
export function noJournal(): Pick<
  Journal,
  "note" | "commit" | "hasRoom" | "capacityBytes" | "makeRoom" | "shrunk" | "onFull" | "state"
> {
  const room = { hasRoom: true, capacityBytes: Infinity, makeRoom: () => true, onFull: () => {} };
  const shrunk = Promise.resolve();
  return { note: () => {}, commit: () => {}, ...room, shrunk, state: () => [] };
}

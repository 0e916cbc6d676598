import { Failure } from "../base/failure.ts";
import type { EndingRecord, InodeRecord, JournalRecord, SegmentRecord } from "./record.ts";
import type { OpenRecord, OutcomeRecord, SentRecord } from "./record.ts";

type Of<Kind extends JournalRecord["is"]> = Extract<JournalRecord, { is: Kind }>;

export type UploadRecord =
  | EndingRecord
  | SegmentRecord
  | SentRecord
  | Of<"creating">
  | Of<"created">;

export interface SavedUpload {
  readonly segments: Map<number, SegmentRecord>;
  readonly sent: Map<number, SentRecord>;
  creating: Of<"creating"> | undefined;
  created: Of<"created"> | undefined;
  ending: EndingRecord | undefined;
}

export interface SavedHandle {
  readonly open: OpenRecord;
  readonly upload: SavedUpload;
  place: Of<"place"> | undefined;
}

/** All that a journal says, with everything that has ended left out. */
export interface SavedState {
  connection: Of<"connection"> | undefined;
  nextId: number;
  nextHandle: number;
  readonly inodes: Map<number, InodeRecord>;
  readonly handles: Map<number, SavedHandle>;
  readonly doomed: Map<string, string>;
  readonly outcomes: Map<string, OutcomeRecord>;
  readonly intents: Map<string, Of<"intent">>;
}

function emptyState(): SavedState {
  return {
    connection: undefined,
    nextId: 1,
    nextHandle: 1,
    inodes: new Map(),
    handles: new Map(),
    doomed: new Map(),
    outcomes: new Map(),
    intents: new Map(),
  };
}

/** The state after all records, in their order. */
export function replay(records: Iterable<JournalRecord>): SavedState {
  const state = emptyState();
  const bound = new Map<string, number>();
  for (const record of records) apply(state, bound, record);
  return state;
}

function apply(state: SavedState, bound: Map<string, number>, record: JournalRecord): void {
  switch (record.is) {
    case "connection":
      state.connection = record;
      return;
    case "next":
      state.nextId = Math.max(state.nextId, record.id);
      state.nextHandle = Math.max(state.nextHandle, record.handle);
      return;
    case "inode":
    case "refs":
    case "gone":
      return applyInode(state, bound, record);
    case "open":
      state.nextHandle = Math.max(state.nextHandle, record.handle + 1);
      state.handles.set(record.handle, { open: record, upload: newUpload(), place: undefined });
      return answer(state, record.unique, { id: undefined, handle: record.handle });
    case "closed":
      state.handles.delete(record.handle);
      return;
    case "doomed":
      state.doomed.set(record.uploadId, record.key);
      return;
    case "aborted":
      state.doomed.delete(record.uploadId);
      return;
    case "intent":
      state.intents.set(record.unique, record);
      return;
    case "outcome":
      state.intents.delete(record.unique);
      return answer(state, record.unique, record);
    case "place":
    case "segment":
    case "creating":
    case "created":
    case "sent":
    case "putting":
    case "completing":
    case "completed":
    case "continued":
    case "failed":
      return applyHandle(state, record);
    default:
      record satisfies never; // a kind of the next format
      return checkOptional(record);
  }
}

function checkOptional({ is, optional }: { is?: unknown; optional?: unknown }): void {
  if (optional === true) return;
  throw new Failure("invalid", `the journal has a record of an unknown kind: ${String(is)}`);
}

export function newUpload(): SavedUpload {
  return {
    segments: new Map(),
    sent: new Map(),
    creating: undefined,
    created: undefined,
    ending: undefined,
  };
}

/** Entry and handle of one answer may come in two records. */
function answer(
  state: SavedState,
  unique: string | undefined,
  given: { id?: number | undefined; handle?: number | undefined; errno?: number },
): void {
  if (unique === undefined) return;
  const known = state.outcomes.get(unique);
  const id = given.id ?? known?.id;
  const handle = given.handle ?? known?.handle;
  state.outcomes.set(unique, {
    is: "outcome",
    unique,
    ...(id === undefined ? {} : { id }),
    ...(handle === undefined ? {} : { handle }),
    ...(given.errno === undefined ? {} : { errno: given.errno }),
  });
}

function applyInode(
  state: SavedState,
  bound: Map<string, number>,
  record: InodeRecord | Of<"refs"> | Of<"gone">,
): void {
  const known = state.inodes.get(record.id);
  if (record.is === "gone") {
    state.inodes.delete(record.id);
    if (known !== undefined && bound.get(known.path) === record.id) bound.delete(known.path);
    return;
  }
  if (record.is === "inode") {
    state.nextId = Math.max(state.nextId, record.id + 1);
    state.inodes.set(record.id, record);
    if (record.unbound !== true) bind(state, bound, record);
    return answer(state, record.unique, { id: record.id });
  }
  if (known === undefined) throw new Failure("invalid", `the journal lacks inode ${record.id}`);
  state.inodes.set(record.id, { ...known, refs: record.refs });
  answer(state, record.unique, { id: record.id });
}

/** A path leads to one inode: to the one that was noted last. */
function bind(state: SavedState, bound: Map<string, number>, { path, id }: InodeRecord): void {
  const formerId = bound.get(path) ?? id;
  const former = state.inodes.get(formerId);
  bound.set(path, id);
  if (former !== undefined && formerId !== id) {
    state.inodes.set(formerId, { ...former, unbound: true });
  }
}

function applyHandle(state: SavedState, record: UploadRecord | Of<"place">): void {
  const known = state.handles.get(record.handle);
  if (known === undefined) return; // it has closed
  if (record.is === "place") known.place = record;
  else applyUpload(known.upload, record);
}

export function applyUpload(upload: SavedUpload, record: UploadRecord): void {
  switch (record.is) {
    case "segment":
      if (upload.ending?.is !== "failed") upload.segments.set(record.part, record);
      return;
    case "creating":
      upload.creating = record;
      return;
    case "created":
      upload.created = record;
      return;
    case "sent":
      upload.segments.delete(record.part);
      upload.sent.set(record.part, record);
      return;
    case "continued":
      upload.ending = undefined;
      return;
    case "failed":
      upload.segments.clear(); // nobody will send them: their places are for others
      upload.ending = record;
      return;
    case "putting":
    case "completing":
    case "completed":
      upload.ending = record;
      return;
    default:
      record satisfies never;
  }
}

/** The fewest records that say the same. */
export function* uploadRecords(upload: SavedUpload): Generator<UploadRecord, void, undefined> {
  if (upload.creating !== undefined) yield upload.creating;
  if (upload.created !== undefined) yield upload.created;
  yield* upload.sent.values();
  yield* upload.segments.values();
  if (upload.ending !== undefined) yield upload.ending;
}

import { Failure } from "../base/failure.ts";
import type {
  CutRecord,
  DoomedRecord,
  EndingRecord,
  InodeRecord,
  JournalRecord,
  SegmentRecord,
  SuspectRecord,
} from "./record.ts";
import type {
  OpenRecord,
  OutcomeRecord,
  OwnerRecord,
  ReleasedRecord,
  SentRecord,
} from "./record.ts";

type Of<Kind extends JournalRecord["is"]> = Extract<JournalRecord, { is: Kind }>;

export type UploadRecord =
  | CutRecord
  | EndingRecord
  | OwnerRecord
  | SegmentRecord
  | SentRecord
  | Of<"creating">
  | Of<"created">;

export interface SavedUpload {
  readonly owners: Map<string, OwnerRecord>;
  readonly segments: Map<number, SegmentRecord>;
  readonly sent: Map<number, SentRecord>;
  creating: Of<"creating"> | undefined;
  created: Of<"created"> | undefined;
  cut: CutRecord | undefined;
  ending: EndingRecord | undefined;
  /** S3 has the object, also when a later write has failed. */
  completed: EndingRecord | undefined;
}

export interface SavedHandle {
  readonly open: OpenRecord;
  readonly upload: SavedUpload;
  place: Of<"place"> | undefined;
  /** Of a writer whose upload was still to be ended. */
  released: ReleasedRecord | undefined;
}

/** All that a journal says, with everything that has ended left out. */
export interface SavedState {
  connection: Of<"connection"> | undefined;
  nextId: number;
  nextHandle: number;
  readonly inodes: Map<number, InodeRecord>;
  readonly handles: Map<number, SavedHandle>;
  readonly doomed: Map<string, DoomedRecord>;
  /** By key. */
  readonly suspects: Map<string, SuspectRecord>;
  readonly outcomes: Map<string, OutcomeRecord>;
  readonly intents: Map<string, Of<"intent">>;
}

/** More than there are places for requests; each is answered as soon as it is noted. */
const OUTCOMES_MAX = 4096;

/** A bucket of strays is no reason to fill the journal: the latest ones are looked for. */
const SUSPECTS_MAX = 256;

/** More than can be on their way to S3 at once. */
export const PARTS_WITH_WRITERS = 16;

function emptyState(): SavedState {
  return {
    connection: undefined,
    nextId: 1,
    nextHandle: 1,
    inodes: new Map(),
    handles: new Map(),
    doomed: new Map(),
    suspects: new Map(),
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
      state.handles.set(record.handle, newHandle(record));
      return answer(state, record.unique, { id: undefined, handle: record.handle });
    case "closed":
      state.handles.delete(record.handle);
      return;
    case "doomed":
      state.doomed.set(record.uploadId, record);
      return;
    case "suspect":
      return rememberSuspect(state.suspects, record);
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
    case "released":
    case "owner":
    case "segment":
    case "creating":
    case "created":
    case "sent":
    case "cut":
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

function newHandle(open: OpenRecord): SavedHandle {
  return { open, upload: newUpload(), place: undefined, released: undefined };
}

export function newUpload(): SavedUpload {
  return {
    owners: new Map(),
    segments: new Map(),
    sent: new Map(),
    creating: undefined,
    created: undefined,
    cut: undefined,
    ending: undefined,
    completed: undefined,
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
  rememberOutcome(state.outcomes, {
    is: "outcome",
    unique,
    ...(id === undefined ? {} : { id }),
    ...(handle === undefined ? {} : { handle }),
    ...(given.errno === undefined ? {} : { errno: given.errno }),
  });
}

/**
 * Of one key the time from the first beginning to the last end counts. Beyond the limit the key
 * that came first is forgotten.
 */
export function rememberSuspect(
  suspects: Map<string, SuspectRecord>,
  suspect: SuspectRecord,
): void {
  const known = suspects.get(suspect.key) ?? suspect;
  const sinceMs = Math.min(known.sinceMs, suspect.sinceMs);
  const isBounded = known.untilMs !== undefined && suspect.untilMs !== undefined;
  const untilMs = isBounded ? Math.max(known.untilMs, suspect.untilMs) : undefined;
  suspects.set(suspect.key, { ...suspect, sinceMs, untilMs });
  const [first] = suspects.keys();
  if (suspects.size > SUSPECTS_MAX && first !== undefined) suspects.delete(first);
}

/** A journal has those of all names that were ever looked up: only the last may come again. */
function rememberOutcome(outcomes: Map<string, OutcomeRecord>, outcome: OutcomeRecord): void {
  outcomes.set(outcome.unique, outcome);
  if (outcomes.size < 2 * OUTCOMES_MAX) return;
  // Many in one pass: to find the first key of a map again and again is slow.
  for (const unique of outcomes.keys()) {
    if (outcomes.size <= OUTCOMES_MAX) return;
    outcomes.delete(unique);
  }
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

function applyHandle(state: SavedState, record: UploadRecord | Of<"place"> | ReleasedRecord): void {
  const known = state.handles.get(record.handle);
  if (known === undefined) return; // it has closed
  if (record.is === "place") known.place = record;
  else if (record.is === "released") known.released = record;
  else applyUpload(known.upload, record);
}

export function applyUpload(upload: SavedUpload, record: UploadRecord): void {
  switch (record.is) {
    case "owner":
      upload.owners.set(record.owner, record);
      return;
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
      if (upload.ending?.is === "failed") return;
      upload.sent.set(record.part, record);
      forgetWriters(upload, record.part - PARTS_WITH_WRITERS);
      return;
    case "cut":
      upload.cut = record.isCut ? record : undefined;
      return;
    case "continued":
      upload.ending = undefined;
      upload.completed = undefined;
      return;
    case "failed":
      upload.segments.clear(); // nobody will send them: their places are for others
      upload.sent.clear(); // the upload is removed as a whole
      upload.ending = record;
      return;
    case "completed":
      upload.completed = record;
      upload.ending = record;
      return;
    case "putting":
    case "completing":
      upload.ending = record;
      return;
    default:
      record satisfies never;
  }
}

/** A request that comes again wrote to one of the last parts: the others need not know theirs. */
function forgetWriters({ sent }: SavedUpload, part: number): void {
  const old = sent.get(part);
  if (old?.by === undefined) return;
  const { by: _by, ...rest } = old;
  sent.set(part, rest);
}

/** The fewest records that say the same. */
export function* uploadRecords(upload: SavedUpload): Generator<UploadRecord, void, undefined> {
  yield* upload.owners.values();
  if (upload.creating !== undefined) yield upload.creating;
  if (upload.created !== undefined) yield upload.created;
  yield* upload.sent.values();
  yield* upload.segments.values();
  if (upload.cut !== undefined) yield upload.cut;
  if (upload.completed !== undefined && upload.completed !== upload.ending) yield upload.completed;
  if (upload.ending !== undefined) yield upload.ending;
}

import type { FailureKind } from "../base/failure.ts";
import { keys } from "../base/keys.ts";
import type { Keys } from "../base/keys.ts";
import { choice, descriptor, flag, oneOf, record } from "../base/shape.ts";
import type { Shape } from "../base/shape.ts";

/** Where an engine finds the number of its end of the line. */
export const CONTROL_FD_VARIABLE = "S3CSI_CONTROL_FD";
/** A message is one line of JSON: no more than a hand-over's is, and what a start says besides. */
export const CONTROL_LINE_MAX = 128 * 1024;

export interface Start {
  readonly do: "start";
  readonly fuseFd: number;
  readonly slotsFd: number;
  readonly journalFd: number;
  readonly spoolFd: number;
  /** An earlier engine has served this connection: go on where it ended. */
  readonly resume: boolean;
  /** Not mounted yet: say when it should be. */
  readonly waits: boolean;
  readonly mountedByUs: boolean;
  /** Null: requests are not signed. `find`: the engine looks where users keep them. */
  readonly credentials: Keys | null | "find";
}

/** What a supervisor tells its engine over a socket that both have from its start. */
export type ControlMessage =
  | Start
  /** It is mounted now. */
  | { readonly do: "serve" }
  /** Other keys from now on. */
  | { readonly do: "rekey"; readonly credentials: Start["credentials"] }
  /** Is it still there? */
  | { readonly do: "ask" }
  | { readonly do: "finish" };

/** What the engine tells its supervisor. */
export type EngineMessage =
  | { readonly did: "opened" | "ready" | "alive" }
  | { readonly did: "failed"; readonly kind: FailureKind; readonly message: string }
  | { readonly did: "finished" };

const credentials: Shape<Start["credentials"]> = (value, name) =>
  value === null || value === "find" ? value : keys(value, name);

const control = choice<ControlMessage>("do", {
  start: record<Start>({
    do: oneOf(["start"]),
    fuseFd: descriptor,
    slotsFd: descriptor,
    journalFd: descriptor,
    spoolFd: descriptor,
    resume: flag,
    waits: flag,
    mountedByUs: flag,
    credentials,
  }),
  serve: record({ do: oneOf(["serve"]) }),
  rekey: record({ do: oneOf(["rekey"]), credentials }),
  ask: record({ do: oneOf(["ask"]) }),
  finish: record({ do: oneOf(["finish"]) }),
});

export function readControlMessage(input: unknown): ControlMessage {
  return control(input, "");
}

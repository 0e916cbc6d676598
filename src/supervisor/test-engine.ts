import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { CONTROL_FD_VARIABLE } from "./control-messages.ts";
import type { EngineMessage } from "./control-messages.ts";
import { ParentLine } from "./parent-line.ts";

/**
 * For tests: a program that behaves as an engine does, each one of a row as its word says. The
 * last word counts for all that follow. What it sees it writes down.
 */
const [, , , diary = "", ...words] = process.argv;

/** More than the heap of an engine in a container of 128 MiB usually has. */
const HELD_BYTES = 56 << 20;
let held: number[] = [];

function write(line: string): void {
  appendFileSync(diary, `${line}\n`);
}

async function tell(message: EngineMessage): Promise<void> {
  await parent?.tell(message);
}

async function end(status: number, message: EngineMessage): Promise<void> {
  await tell(message);
  process.exit(status);
}

async function start(): Promise<void> {
  if (word === "deaf") return;
  if (word === "dies") process.exit(9);
  if (word === "remembers") held = Array.from({ length: HELD_BYTES / 8 }, () => 0.5);
  if (word === "raves") return writeFileSync(Number(process.env[CONTROL_FD_VARIABLE]), "?\n");
  if (word === "invalid") await end(2, { did: "failed", kind: "invalid", message: "what is this" });
  if (word === "small") await end(2, { did: "failed", kind: "refused", message: "too small" });
  if (word === "away") await end(5, { did: "failed", kind: "remote", message: "S3 is away" });
  await tell({ did: "ready" });
  if (held.length > 0) write(`holds ${held.length} numbers`);
  if (word === "crashes") process.exit(3);
  if (word === "ends") await end(0, { did: "finished" });
}

const earlier = readFileSync(diary, "utf8")
  .split("\n")
  .filter((line) => line.startsWith("start"));
const word = words[earlier.length] ?? words.at(-1);
const parent = ParentLine.open();
parent?.listen(
  (text) => {
    const message = JSON.parse(text) as { readonly do: string; readonly resume?: boolean };
    if (message.do === "start") {
      write(`start ${word} ${message.resume === true ? "resume" : "new"}`);
      void start();
    } else if (message.do === "finish") {
      write(`finish ${word}`);
      void end(0, { did: "finished" });
    } else if (word !== "hangs") void tell({ did: "alive" });
  },
  () => process.exit(1),
);

import { appendFileSync, readFileSync } from "node:fs";

/**
 * For tests: a program that behaves as an engine does, each one of a row as its word says. The
 * last word counts for all that follow. What it sees it writes down.
 */
const [, , , diary = "", ...words] = process.argv;

function write(line: string): void {
  appendFileSync(diary, `${line}\n`);
}

function tell(message: object): Promise<void> {
  return new Promise((resolve) => process.send?.(message, () => resolve()));
}

async function end(status: number, message: object): Promise<void> {
  await tell(message);
  process.exit(status);
}

async function start(): Promise<void> {
  if (word === "deaf") return;
  if (word === "dies") process.exit(9);
  if (word === "invalid") await end(2, { did: "failed", kind: "invalid", message: "what is this" });
  if (word === "away") await end(5, { did: "failed", kind: "remote", message: "S3 is away" });
  await tell({ did: "ready" });
  if (word === "crashes") process.exit(3);
  if (word === "ends") await end(0, { did: "finished" });
}

const earlier = readFileSync(diary, "utf8")
  .split("\n")
  .filter((line) => line.startsWith("start"));
const word = words[earlier.length] ?? words.at(-1);
process.on("message", (message: { do: string; resume?: boolean }) => {
  if (message.do === "start") {
    write(`start ${word} ${message.resume === true ? "resume" : "new"}`);
    void start();
  } else if (message.do === "finish") {
    write(`finish ${word}`);
    void end(0, { did: "finished" });
  } else if (word !== "hangs") void tell({ did: "alive" });
});
process.on("disconnect", () => process.exit(1));

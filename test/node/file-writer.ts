import { spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";

/** Writes a letter so many times, or closes, as each line says; tells when it is done. */
const PROGRAM = `
  const fs = require("node:fs");
  const fd = fs.openSync(process.argv[1], "w");
  console.log("open");
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const [letter, count] = line.split(" ");
    if (letter === "close") fs.closeSync(fd);
    else fs.writeSync(fd, Buffer.alloc(Number(count), letter));
    console.log("done");
  });`;

/**
 * A program that has a file open on a mount. Never the test itself: a process that it starts would
 * have the file too, close it before it begins, and wait for the engine that it should become.
 */
export class FileWriter implements AsyncDisposable {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #ended: Promise<unknown>;

  private constructor(path: string) {
    const stdio: ["pipe", "pipe", "inherit"] = ["pipe", "pipe", "inherit"];
    this.#child = spawn(process.execPath, ["-e", PROGRAM, path], { stdio });
    this.#ended = once(this.#child, "exit");
  }

  static async open(path: string): Promise<FileWriter> {
    const writer = new FileWriter(path);
    await once(writer.#child.stdout, "data");
    return writer;
  }

  /** Resolves when the write is acknowledged. */
  async write(letter: string, count: number): Promise<void> {
    await this.#say(`${letter} ${count}`);
  }

  async close(): Promise<void> {
    await this.#say("close");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  async #say(line: string): Promise<void> {
    const done = once(this.#child.stdout, "data");
    this.#child.stdin.write(`${line}\n`);
    await done;
  }
}

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const PAGE = join(import.meta.dirname, "../../docs/semantics.md");

interface Step {
  readonly command: string;
  readonly output: string;
}

interface Example {
  readonly heading: string;
  readonly mountArgs: readonly string[];
  readonly steps: readonly Step[];
}

/** A block begins with its mount options; `$ ` marks a command, what follows is its output. */
function readExamples(page: string): Example[] {
  const examples: Example[] = [];
  let heading = "";
  for (const [, title, body] of page.matchAll(/^## (.*)$|^```console\n([\s\S]*?)^```$/gm)) {
    if (title !== undefined) heading = title;
    if (body === undefined) continue;
    const [first = "", ...lines] = body.trimEnd().split("\n");
    const mount = /^\$ s3csi mount BUCKET \.((?: [^ ]+)*) &$/.exec(first);
    assert(mount, `an example must begin with its mount: ${first}`);
    const mountArgs = (mount[1] ?? "").split(" ").filter(Boolean);
    examples.push({ heading, mountArgs, steps: readSteps(lines) });
  }
  return examples;
}

function readSteps(lines: readonly string[]): Step[] {
  const steps: { command: string; output: string }[] = [];
  for (const line of lines) {
    const step = steps.at(-1);
    if (line.startsWith("$ ")) steps.push({ command: line.slice(2), output: "" });
    else if (step !== undefined) step.output += `${line}\n`;
  }
  return steps;
}

/** Both streams in the order of writing, as a person at a terminal sees them. */
async function shell(command: string, dir: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const env = { PATH: process.env["PATH"], LC_ALL: "C.UTF-8" };
  const options = { cwd: dir, env, timeout: 20_000 };
  execFile("bash", ["-c", `exec 2>&1; ${command}`], options, (_, stdout) => resolve(stdout));
  return promise;
}

describe("the examples of docs/semantics.md", { concurrency: 4 }, () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
  });
  after(() => bucket[Symbol.asyncDispose]());

  /** `elsewhere` is somebody who uses the bucket without this mount. */
  async function elsewhere(prefix: string, words: readonly string[]): Promise<string> {
    const [verb, key = "", ...rest] = words;
    const text = rest.length === 0 ? "" : `${rest.join(" ")}\n`;
    if (verb === "put") await bucket.put(prefix + key, text);
    else if (verb === "delete") await bucket.delete(prefix + key);
    else if (verb === "keys") {
      const keys = (await bucket.keys()).filter((one) => one.startsWith(prefix));
      return keys.map((one) => `${one.slice(prefix.length)}\n`).join("");
    } else assert.fail(`elsewhere ${verb}?`);
    return "";
  }

  for (const [index, example] of readExamples(readFileSync(PAGE, "utf8")).entries()) {
    test(`${example.heading}, example ${index + 1}`, async () => {
      const prefix = `example-${index}/`;
      const args = ["--prefix", prefix, ...example.mountArgs];
      await using mount = await mountBucket(bucket, args);
      for (const { command, output } of example.steps) {
        const [word, ...words] = command.split(" ");
        const got =
          word === "elsewhere" ? await elsewhere(prefix, words) : await shell(command, mount.dir);
        assert.equal(got, output, `$ ${command}`);
      }
    });
  }
});

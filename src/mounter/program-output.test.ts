import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { LOG_LEVELS } from "../base/log.ts";
import type { LogLevel } from "../base/log.ts";
import { ProgramOutput } from "./program-output.ts";

interface Line {
  readonly level: LogLevel;
  readonly source?: string;
  readonly text?: string;
  readonly continued?: boolean;
}

function linesOf(...chunks: readonly (string | Uint8Array)[]): Line[] {
  const lines: Line[] = [];
  const writers = LOG_LEVELS.map((level) => [
    level,
    (facts: object) => void lines.push({ level, ...facts }),
  ]);
  const output = new ProgramOutput("mount-s3", Object.fromEntries(writers));
  for (const chunk of chunks) output.add(Buffer.from(chunk as string));
  output.end();
  return lines;
}

// prettier-ignore
const cases: [text: string, level: LogLevel][] = [
  ["2026-01-02T03:04:05.678901Z  WARN mountpoint_s3_fs::fs: lookup failed: inode error", "warn"],
  ["2026-01-02T03:04:05.678901Z ERROR fuser: no answer",                                 "error"],
  ["2026-01-02T03:04:05.678901Z  INFO mountpoint_s3::cli: mount-s3 1.24.0",              "info"],
  ["2026-01-02T03:04:05.678901Z DEBUG awscrt::tls: ready",                               "debug"],
  ["2026-01-02T03:04:05.678901Z TRACE fuse: read",                                       "debug"],
  ["[WARN] a warning without a time",                                                    "warn"],
  ["Error: Failed to create S3 client",                                                  "error"],
  ["error: unexpected argument '--turbo' found",                                         "error"],
  ["thread 'main' panicked at src/main.rs:1:1:",                                         "error"],
  ["bucket photos is mounted at /dev/fd/3",                                              "info"],
  ["a file named ERROR was read",                                                        "info"],
];
for (const [text, level] of cases) {
  test(`a line of the program has its level: ${level} for ${text.slice(0, 50)}`, () => {
    assert.deepEqual(linesOf(`${text}\n`), [{ level, source: "mount-s3", text }]);
  });
}

test("a line that names no level has that of the line before", () => {
  const lines = linesOf("Error: no bucket\n\nCaused by:\r\n    0: gone\n1 INFO served\nmore");
  assert.deepEqual(
    lines.map(({ level, text }) => [level, text]),
    [
      ["error", "Error: no bucket"],
      ["error", "Caused by:"],
      ["error", "    0: gone"],
      ["info", "1 INFO served"],
      ["info", "more"],
    ],
  );
});

test("a line without an end is written in pieces while it comes", () => {
  const long = `1 WARN ${"é".repeat(20_000)}`;
  const lines = linesOf(...Array.from(Buffer.from(long), (byte) => Uint8Array.of(byte)));
  assert.equal(lines.map(({ text }) => text).join(""), long);
  assert(lines.every(({ level, text = "" }) => level === "warn" && text.length <= 8_000));
  assert.deepEqual(
    lines.map(({ continued }) => continued),
    [undefined, true, true],
  );
});

test("nothing that is printed is lost, however it is cut", () => {
  const line = fc.string({ unit: "grapheme", maxLength: 20 }).map((s) => s.replaceAll(/\s/g, "."));
  fc.assert(
    fc.property(fc.array(line), fc.nat(200), (printed, cut) => {
      const bytes = Buffer.from(printed.join("\n"));
      const lines = linesOf(bytes.subarray(0, cut), bytes.subarray(cut));
      assert.deepEqual(
        lines.map(({ text }) => text),
        printed.filter((one) => one !== ""),
      );
    }),
  );
});

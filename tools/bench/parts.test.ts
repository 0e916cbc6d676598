import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Part } from "./part.ts";

const DIR = join(import.meta.dirname, "parts");

for (const file of readdirSync(DIR)) {
  test(`the benchmark part ${file} is named as its file is and says what it measures`, async () => {
    const { part } = (await import(join(DIR, file))) as { part: Part };
    assert.equal(`${part.name}.ts`, file);
    assert.match(part.description, /^\S[^\n]+$/);
  });
}

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { optionPage, usage } from "./option-page.ts";
import { OPTIONS } from "./option-table.ts";

test("docs/options.md is what the table says (make gen)", () => {
  const page = join(import.meta.dirname, "../../docs/options.md");
  assert.equal(readFileSync(page, "utf8"), optionPage());
});

test("the help names every option, in lines that fit a terminal", () => {
  const text = usage();
  for (const name of OPTIONS.keys()) assert(text.includes(` --${name} `), name);
  for (const line of text.split("\n")) assert(line.length <= 110, line);
});

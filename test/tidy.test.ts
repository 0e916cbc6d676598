import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path/posix";
import { test } from "node:test";

/** The floor plan. A room may import itself and the rooms named here: read it top-down. */
const ROOMS: Record<string, readonly string[]> = {
  base: [],
  sys: ["base"],
  volume: ["base"],
  s3: ["base", "sys"],
  kube: ["base"],
  csi: ["base"],
  health: ["base"],
  fuse: ["base", "sys"],
  cache: ["base", "s3", "sys"],
  journal: ["base"],
  engine: ["base", "journal", "s3"],
  handover: ["base", "sys", "volume"],
  controller: ["base", "csi", "s3", "volume"],
  provisioner: ["base", "csi", "kube", "volume"],
  reconciler: ["base", "kube", "volume"],
  node: ["base", "csi", "handover", "kube", "sys", "volume"],
  supervisor: ["base", "sys"],
  mounter: ["base", "handover", "supervisor", "sys", "volume"],
  mount: ["base", "cache", "engine", "fuse", "journal", "s3", "supervisor", "sys", "volume"],
};
/** Where rooms are put together: these may import every room. */
const COMPOSITION = new Set(["main.ts", "roles"]);
const FILE_LINES_MAX = 400;
const LINE_COLUMNS_MAX = 100;
const GENERATED = "src/csi/gen/";

const root = join(import.meta.dirname, "..");
const sources = globSync("{src,test,tools}/**/*.ts", { cwd: root }).filter(
  (path) => !path.startsWith(GENERATED),
);

for (const path of sources) {
  test(`tidy: ${path}`, () => {
    const text = readFileSync(join(root, path), "utf8");
    checkSize(path, text.split("\n"));
    if (path.startsWith("src/")) checkImports(path, text);
  });
}

test("tidy: every room of the floor plan is described in docs/architecture.md", () => {
  const page = readFileSync(join(root, "docs/architecture.md"), "utf8");
  const rooms = globSync("src/*/", { cwd: root }).map((path) => path.split("/")[1] ?? "");
  for (const room of rooms) {
    const known = ROOMS[room] !== undefined || COMPOSITION.has(room);
    assert(known, `src/${room} is not in the floor plan`);
    const row = new RegExp(`^\\| \`${room}/\` +\\|`, "m");
    assert.match(page, row, `docs/architecture.md has no row for ${room}/`);
  }
});

function checkSize(path: string, lines: readonly string[]): void {
  assert(lines.length <= FILE_LINES_MAX, `${lines.length} lines: find the second idea and move it`);
  if (path.endsWith(".test.ts")) return; // tables may be wide
  for (const [index, line] of lines.entries()) {
    assert(line.length <= LINE_COLUMNS_MAX, `line ${index + 1} is ${line.length} columns wide`);
  }
}

/** A room imports only what its line names. */
function checkImports(path: string, text: string): void {
  const [, room = ""] = path.split("/");
  if (COMPOSITION.has(room)) return;
  const allowed = ROOMS[room] ?? [];
  for (const [, target = ""] of text.matchAll(/\b(?:from|import\() ?"(\.{1,2}\/[^"]+)"/g)) {
    const resolved = relative("src", join(dirname(path), target));
    if (resolved.startsWith("../")) {
      const fine = path.endsWith(".test.ts") || resolved === "../package.json";
      assert(fine, `${path} imports ${target}, outside of src/`);
      continue;
    }
    const other = resolved.split("/")[0] ?? "";
    assert(other === room || allowed.includes(other), `${room} may not import ${other}: ${target}`);
  }
}

import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path/posix";
import { test } from "node:test";

const root = join(import.meta.dirname, "..");
const pages = globSync(["*.md", "docs/**/*.md", "deploy/**/*.md"], { cwd: root });

/** Without examples: what looks like a link there is none. */
function proseOf(path: string): string {
  const text = readFileSync(path, "utf8");
  return text.replaceAll(/^ *```[^]*?^ *```$/gm, "").replaceAll(/`[^`\n]+`/g, "``");
}

/** The anchors of a page's headings, as renderers of Markdown name them. */
function anchorsOf(path: string): Set<string> {
  const headings = readFileSync(path, "utf8").matchAll(/^#+ (.+)$/gm);
  return new Set(
    Array.from(headings, ([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

for (const page of pages) {
  test(`links of ${page} lead to a file and a heading that exist`, () => {
    const path = join(root, page);
    for (const [, link = ""] of proseOf(path).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue; // another site
      const [file = "", anchor] = link.split("#");
      const target = file === "" ? path : join(dirname(path), file);
      assert(existsSync(target), `${link}: there is no ${relative(root, target)}`);
      if (anchor === undefined) continue;
      assert(statSync(target).isFile(), `${link}: a folder has no headings`);
      assert(anchorsOf(target).has(anchor), `${link}: no such heading`);
    }
  });
}

test("every page of docs/ is linked from another page", () => {
  const linked = new Set(
    pages.flatMap((page) => {
      const links = proseOf(join(root, page)).matchAll(/\]\(([^)\s#]+)[^)]*\)/g);
      return Array.from(links, ([, link = ""]) => join(dirname(page), link));
    }),
  );
  const folders = [...linked].filter((link) => link.endsWith("/"));
  for (const page of pages.filter((name) => name.startsWith("docs/"))) {
    const isListed = folders.some((folder) => page.startsWith(folder));
    assert(linked.has(page) || isListed, `${page} is linked from nowhere`);
  }
});

import assert from "node:assert/strict";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { run } from "../tools/run.ts";

const ROOT = join(import.meta.dirname, "..");
const GENERATED = "src/csi/gen";

test("the generated code is what `make gen` makes of the .proto files now", async () => {
  const fresh = await mkdtemp(join(tmpdir(), "s3csi-gen-"));
  try {
    const template = "src/csi/proto/buf.gen.yaml";
    const args = ["generate", "src/csi/proto", "--template", template, "-o", fresh];
    await run("node_modules/.bin/buf", args, { cwd: ROOT });
    assert.deepEqual(await filesOf(join(ROOT, GENERATED)), await filesOf(join(fresh, GENERATED)));
  } finally {
    await rm(fresh, { recursive: true });
  }
});

async function filesOf(dir: string): Promise<Record<string, string>> {
  const names = (await readdir(dir)).toSorted();
  const texts = names.map(async (name) => [name, await readFile(join(dir, name), "utf8")] as const);
  return Object.fromEntries(await Promise.all(texts));
}

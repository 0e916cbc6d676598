import { chmod, cp, link, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import type { BuildOptions } from "esbuild";
import { toolMain } from "./progress.ts";

const ROOT = join(import.meta.dirname, "..");
export const BUNDLE_DIR = join(ROOT, "build/bundle");
export const BUNDLE_ENTRY = join(BUNDLE_DIR, "s3csi.cjs");

/**
 * Packages that stay outside of the bundle, since they hold machine code, with the files we need.
 */
const NATIVE = [
  "koffi/package.json",
  "koffi/index.js",
  "koffi/index.cjs",
  "koffi/src/koffi/index.js",
  "koffi/src/koffi/index.cjs",
  "koffi/src/koffi/src/static.js",
  "koffi/src/koffi/src/static.cjs",
  `@koromix/koffi-linux-${process.arch}/package.json`,
  `@koromix/koffi-linux-${process.arch}/index.js`,
  `@koromix/koffi-linux-${process.arch}/linux_${process.arch}`,
  `@node-rs/crc32-linux-${process.arch}-gnu`,
];

const REQUIRE =
  'import{createRequire as requireFrom}from"node:module";' +
  "const require=requireFrom(import.meta.url);";

const COMMON: BuildOptions = {
  outdir: BUNDLE_DIR,
  bundle: true,
  platform: "node",
  target: "node26",
  external: ["koffi"],
  minifySyntax: true,
  minifyWhitespace: true,
  logLevel: "warning",
};

/** Roles that somebody waits for while they start: applications, or a pod. */
const FAST_ROLES = ["mount", "mounter"];

/** What everybody starts: a fast role goes the shorter way. */
const ENTRY = `"use strict";
const [, , role, ...argv] = process.argv;
const fast = ${JSON.stringify(FAST_ROLES)}.includes(role) && !argv.includes("--version");
if (fast) require(\`./\${role}.cjs\`).run(argv, process.env).catch(fail);
else import("./roles.mjs");
function fail(error) {
  if (error?.name !== "Failure") throw error;
  process.stderr.write(\`s3csi: \${error.message}\\n\`);
  process.exitCode = 2;
}
`;

/**
 * The product as it is shipped: build/bundle. A chunk per role, loaded on demand, so that a
 * Mountpoint Pod never reads the controller's code. Mounter and engine are one file of CommonJS
 * each: from a dozen ES modules they would take three times as long to load.
 */
export async function bundle(): Promise<void> {
  await rm(BUNDLE_DIR, { recursive: true, force: true });
  await build({
    ...COMMON,
    entryPoints: { roles: join(ROOT, "src/main.ts") },
    outExtension: { ".js": ".mjs" },
    splitting: true,
    format: "esm",
    // CommonJS dependencies ask for Node's own modules with require()
    banner: { js: REQUIRE },
  });
  await build({
    ...COMMON,
    entryPoints: FAST_ROLES.map((role) => join(ROOT, `src/roles/${role}.ts`)),
    outExtension: { ".js": ".cjs" },
    format: "cjs",
    minifyWhitespace: false, // a crash quotes the line where it happened: let it be a short one
  });
  await writeFile(BUNDLE_ENTRY, ENTRY);
  for (const path of NATIVE) {
    const source = join(ROOT, "node_modules", path);
    await cp(source, join(BUNDLE_DIR, "node_modules", path), { recursive: true });
  }
}

/** build/s3csi: the bundle on the pinned Node, whatever the system's is. */
async function writeExecutable(): Promise<void> {
  const node = join(ROOT, "build/node");
  await rm(node, { force: true });
  await link(process.execPath, node).catch(() => cp(process.execPath, node));
  const executable = join(ROOT, "build/s3csi");
  const script = `#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
exec "$here/node" "$here/bundle/s3csi.cjs" "$@"
`;
  await writeFile(executable, script);
  await chmod(executable, 0o755);
}

if (import.meta.main) {
  await toolMain(async () => {
    await mkdir(join(ROOT, "build"), { recursive: true });
    await bundle();
    await writeExecutable();
    process.stderr.write("  build/s3csi is ready\n");
  });
}

import { chmod, cp, link, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { toolMain } from "./progress.ts";

const ROOT = join(import.meta.dirname, "..");
export const BUNDLE_DIR = join(ROOT, "build/bundle");

/**
 * Packages that stay outside of the bundle, since they hold machine code, with the files we need.
 */
const NATIVE = [
  "koffi/package.json",
  "koffi/index.js",
  "koffi/src/koffi/index.js",
  "koffi/src/koffi/src/static.js",
  `@koromix/koffi-linux-${process.arch}/package.json`,
  `@koromix/koffi-linux-${process.arch}/index.js`,
  `@koromix/koffi-linux-${process.arch}/linux_${process.arch}`,
];

const REQUIRE =
  'import{createRequire as requireFrom}from"node:module";' +
  "const require=requireFrom(import.meta.url);";

/**
 * The product as it is shipped: build/bundle. One entry and a chunk per role, loaded on demand, so
 * that a Mountpoint Pod never reads the controller's code.
 */
export async function bundle(): Promise<void> {
  await rm(BUNDLE_DIR, { recursive: true, force: true });
  await build({
    entryPoints: { s3csi: join(ROOT, "src/main.ts") },
    outdir: BUNDLE_DIR,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node26",
    external: ["koffi"],
    minifySyntax: true,
    minifyWhitespace: true,
    logLevel: "warning",
    // CommonJS dependencies ask for Node's own modules with require()
    banner: { js: REQUIRE },
  });
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
exec "$here/node" "$here/bundle/s3csi.mjs" "$@"
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

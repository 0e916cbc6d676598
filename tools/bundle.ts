import { chmod, cp, link, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as esbuild from "esbuild";
import type { BuildOptions, Plugin } from "esbuild";
import { compileAhead, COMPILED, MODULE_HEAD, MODULE_TAIL } from "./compile-ahead.ts";
import { toolMain } from "./progress.ts";

const ROOT = join(import.meta.dirname, "..");
export const BUNDLE_DIR = join(ROOT, "build/bundle");
export const BUNDLE_ENTRY = join(BUNDLE_DIR, "s3csi.cjs");

interface MachineCode {
  readonly package: string;
  /** Inside the package. */
  readonly path: string;
  /** Beside the bundle; the same name for every CPU, so that the bundle is the same, too. */
  readonly file: string;
}

/** Files that are not JavaScript, by the name of their import, for a CPU as npm calls it. */
export function machineCode(cpu: string): Readonly<Record<string, MachineCode>> {
  return {
    koffi: {
      package: `@koromix/koffi-linux-${cpu}`,
      path: `linux_${cpu}/koffi.node`,
      file: "koffi.node",
    },
    "@node-rs/crc32": {
      package: `@node-rs/crc32-linux-${cpu}-gnu`,
      path: `crc32.linux-${cpu}-gnu.node`,
      file: "crc32.node",
    },
  };
}

const NATIVE = machineCode(process.arch);

/** They look for it in many places, which takes ten times as long as loading it. */
const native: Plugin = {
  name: "native",
  setup(build) {
    const filter = new RegExp(`^(${Object.keys(NATIVE).join("|")})$`);
    build.onResolve({ filter }, ({ path }) => ({ path, namespace: "native" }));
    build.onLoad({ filter, namespace: "native" }, ({ path }) => ({
      contents: `module.exports = require("./${NATIVE[path]?.file ?? path}");`,
    }));
  },
};

const REQUIRE =
  'import{createRequire as requireFrom}from"node:module";' +
  "const require=requireFrom(import.meta.url);";

const COMMON: BuildOptions = {
  outdir: BUNDLE_DIR,
  bundle: true,
  platform: "node",
  target: "node26",
  external: ["./*.node"],
  plugins: [native],
  minifySyntax: true,
  minifyWhitespace: true,
  logLevel: "warning",
};

/** Roles that somebody waits for while they start: applications, or a pod. */
const FAST_ROLES = ["mount", "mounter", "engine"];

/** What everybody starts: a fast role goes the shorter way, with code that is compiled already. */
const ENTRY = `"use strict";
const [, , role, ...argv] = process.argv;
const fast = ${JSON.stringify(FAST_ROLES)}.includes(role) && !argv.includes("--version");
if (fast) load(\`\${__dirname}/\${role}.cjs\`).run(argv, process.env).catch(fail);
else import("./roles.mjs");
function load(path) {
  const { readFileSync } = require("node:fs");
  const { Script, constants } = require("node:vm");
  const [head, tail] = ${JSON.stringify([MODULE_HEAD, MODULE_TAIL])};
  const source = head + readFileSync(path, "utf8") + tail;
  const script = new Script(source, {
    filename: path,
    cachedData: readFileSync(path + "${COMPILED}"),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  const module = { exports: {} };
  script.runInThisContext()(module.exports, require, module, path, __dirname);
  return module.exports;
}
function fail(error) {
  if (error?.name !== "Failure") throw error;
  process.stderr.write(\`s3csi: \${error.message}\\n\`);
  process.exitCode = 2;
}
`;

/** The files of the bundle that V8 compiles ahead. */
export const COMPILED_AHEAD = FAST_ROLES.map((role) => `${role}.cjs`);

/**
 * The product as it is shipped: build/bundle. A chunk per role, loaded on demand, so that a
 * Mountpoint Pod never reads the controller's code. Mounter and engine are one file of CommonJS
 * each: from a dozen ES modules they would take three times as long to load.
 */
export async function bundle(): Promise<void> {
  await rm(BUNDLE_DIR, { recursive: true, force: true });
  await esbuild.build({
    ...COMMON,
    entryPoints: { roles: join(ROOT, "src/main.ts") },
    outExtension: { ".js": ".mjs" },
    splitting: true,
    format: "esm",
    // CommonJS dependencies ask for Node's own modules with require()
    banner: { js: REQUIRE },
  });
  await esbuild.build({
    ...COMMON,
    entryPoints: FAST_ROLES.map((role) => join(ROOT, `src/roles/${role}.ts`)),
    outExtension: { ".js": ".cjs" },
    format: "cjs",
    minifyWhitespace: false, // a crash quotes the line where it happened: let it be a short one
  });
  await writeFile(BUNDLE_ENTRY, ENTRY);
  for (const { package: name, path, file } of Object.values(NATIVE)) {
    await cp(join(ROOT, "node_modules", name, path), join(BUNDLE_DIR, file));
  }
  for (const file of COMPILED_AHEAD) compileAhead(join(BUNDLE_DIR, file));
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

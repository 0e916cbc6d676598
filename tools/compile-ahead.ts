import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { Script } from "node:vm";

/** What stands around a CommonJS module when it is run. */
export const MODULE_HEAD = "(function (exports, require, module, __filename, __dirname) {";
export const MODULE_TAIL = "\n})";
export const COMPILED = ".compiled";

/** A role may load parts of itself later: those that every start needs, it names. */
interface Loadable {
  load?(): Promise<void>;
}

/**
 * Keeps what V8 compiles while a file of the bundle is loaded, beside the file: whoever starts it
 * saves that work. Another release of V8 refuses what is kept, and compiles as ever.
 */
async function compileAhead(path: string): Promise<void> {
  const source = `${MODULE_HEAD}${readFileSync(path, "utf8")}${MODULE_TAIL}`;
  const script = new Script(source, { filename: path });
  const module: { readonly exports: Loadable } = { exports: {} };
  // Lazy functions are compiled when they are called: so it is not only compiled but loaded.
  script.runInThisContext()(module.exports, createRequire(path), module, path, dirname(path));
  await module.exports.load?.();
  const cachedData = script.createCachedData();
  const again = new Script(source, { filename: path, cachedData });
  if (again.cachedDataRejected !== false) throw new Error(`${path}: V8 refuses its own code`);
  writeFileSync(`${path}${COMPILED}`, cachedData);
}

if (import.meta.main) for (const path of process.argv.slice(2)) await compileAhead(path);

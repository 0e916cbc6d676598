import { readFileSync, writeFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { Script } from "node:vm";

/** What stands around a CommonJS module when it is run. */
export const MODULE_HEAD = "(function (exports, require, module, __filename, __dirname) {";
export const MODULE_TAIL = "\n})";
export const COMPILED = ".compiled";

/**
 * Compiles a file of the bundle, with every function in it, and keeps what V8 makes of it beside
 * the file: whoever starts it saves that work. Another release of V8 refuses what is kept, and
 * compiles as ever.
 */
export function compileAhead(path: string): void {
  const source = `${MODULE_HEAD}${readFileSync(path, "utf8")}${MODULE_TAIL}`;
  const cachedData = compileAll(source, path).createCachedData();
  const again = new Script(source, { filename: path, cachedData });
  if (again.cachedDataRejected !== false) throw new Error(`${path}: V8 refuses its own code`);
  writeFileSync(`${path}${COMPILED}`, cachedData);
}

/** The flag is back when the code is kept: V8 refuses what was made with other flags. */
function compileAll(source: string, filename: string): Script {
  setFlagsFromString("--no-lazy");
  try {
    return new Script(source, { filename });
  } finally {
    setFlagsFromString("--lazy");
  }
}

// Started by itself on the Node of another architecture: V8 takes no code of a foreign one.
if (import.meta.main) for (const path of process.argv.slice(2)) compileAhead(path);

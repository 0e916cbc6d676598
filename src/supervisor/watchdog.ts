import type { EngineProcess } from "./engine-process.ts";

const ASK_EVERY_MS = 5_000;
/** The longest that an engine may be busy with something else, on a machine that is too. */
const SILENT_MAX = 4;

/** Asks the engine for signs of life until it ends; calls when several in a row are missing. */
export function watchOver(
  engine: Pick<EngineProcess, "ask" | "ended">,
  onHanging: () => void,
  everyMs = ASK_EVERY_MS,
): void {
  let silent = 0;
  // Rounds, not time: after the machine has slept nobody is late.
  const timer = setInterval(() => {
    silent += 1;
    if (silent > SILENT_MAX) onHanging();
    engine.ask(() => {
      silent = 0;
    });
  }, everyMs);
  timer.unref();
  void engine.ended.then(() => clearInterval(timer));
}

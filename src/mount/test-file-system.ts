import type { Engine } from "../engine/engine.ts";
import type { EngineConfig } from "../engine/engine-config.ts";
import { EngineFileSystem } from "./engine-file-system.ts";

/** For tests: everybody is let in, and there is room for all. */
export function testFileSystem(
  engine: Engine,
  config: EngineConfig,
  onLostUpload: (error: unknown) => void = () => undefined,
): EngineFileSystem {
  return new EngineFileSystem(engine, {
    config,
    startedMs: 0,
    admits: () => true,
    crowding: { isFull: false, check: () => undefined },
    onLostUpload,
  });
}

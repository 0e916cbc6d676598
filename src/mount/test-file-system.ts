import type { Engine } from "../engine/engine.ts";
import type { EngineConfig } from "../engine/engine-config.ts";
import { PosixFailure } from "../engine/posix-failure.ts";
import { EngineFileSystem } from "./engine-file-system.ts";
import type { FileSystemOptions } from "./engine-file-system.ts";

const NOBODY_FORGETS: FileSystemOptions["crowding"] = {
  isFull: false,
  check: () => undefined,
  forgotten: () => undefined,
  room: () => Promise.reject(new PosixFailure("ENOMEM", "no room for more names")),
};

/** For tests: everybody is let in, and there is room for all. */
export function testFileSystem(
  engine: Engine,
  config: EngineConfig,
  onLostUpload: (error: unknown) => void = () => undefined,
  crowding: FileSystemOptions["crowding"] = NOBODY_FORGETS,
): EngineFileSystem {
  return new EngineFileSystem(engine, {
    config,
    startedMs: 0,
    admits: () => true,
    crowding,
    onLostUpload,
  });
}

import { fstatSync } from "node:fs";
import type { Socket } from "node:net";
import { LineBuffer } from "../base/line-buffer.ts";
import { CONTROL_FD_VARIABLE, CONTROL_LINE_MAX } from "./control-messages.ts";
import type { EngineMessage } from "./control-messages.ts";

/** An engine's end of the line to its supervisor. */
export class ParentLine {
  static #opened: ParentLine | undefined;
  readonly #socket: Socket;

  private constructor(fd: number) {
    // Not by an import: those who have no such line, like `s3csi mount`, do without the module.
    const net = process.getBuiltinModule("node:net");
    this.#socket = new net.Socket({ fd });
    this.#socket.on("error", () => {}); // it closes then, which says all
  }

  /** The same one each time. Undefined: nobody who would talk to us has started this process. */
  static open(): ParentLine | undefined {
    const fd = Number(process.env[CONTROL_FD_VARIABLE] || Number.NaN);
    if (this.#opened === undefined && isSocket(fd)) this.#opened = new ParentLine(fd);
    return this.#opened;
  }

  listen(onLine: (text: string) => void, onClosed: () => void): void {
    const lines = new LineBuffer(CONTROL_LINE_MAX);
    this.#socket.on("data", (bytes: Buffer) => {
      for (const text of lines.add(bytes)) onLine(text);
    });
    this.#socket.once("close", onClosed);
  }

  /** Resolves when the message is on its way, or when there is nobody to read it any more. */
  async tell(message: EngineMessage): Promise<void> {
    if (this.#socket.destroyed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#socket.write(`${JSON.stringify(message)}\n`, () => resolve());
    await promise;
  }
}

function isSocket(fd: number): boolean {
  try {
    return fstatSync(fd).isSocket();
  } catch {
    return false;
  }
}

import { PosixFailure } from "./posix-failure.ts";
import type { UploadNotes } from "./upload-notes.ts";

/** Remembers whether a signal came to the last write(2) of a file, and whether that lost bytes. */
export class LastWrite {
  readonly #notes: UploadNotes;
  readonly #handle: number;
  readonly #key: string;
  #wasLeft: boolean;

  constructor(notes: UploadNotes, handle: number, key: string) {
    this.#notes = notes;
    this.#handle = handle;
    this.#key = key;
    this.#wasLeft = notes.isCut;
  }

  /** The last write was cut off: bytes of it are not taken, and no write has repeated them. */
  get isCut(): boolean {
    return this.#notes.isCut;
  }

  /** The caller of the last write has left, killed most likely. False once the upload has ended. */
  get wasLeft(): boolean {
    return this.#wasLeft;
  }

  answered(isCut: boolean, wasLeft: boolean): void {
    this.#wasLeft = wasLeft;
    if (isCut === this.#notes.isCut) return;
    this.#notes.note({ is: "cut", handle: this.#handle, isCut, optional: true });
  }

  uploadEnded(): void {
    this.#wasLeft = false;
  }

  /** The error of the last write when none of its bytes was taken. */
  interrupt(): PosixFailure {
    this.#wasLeft = true;
    return new PosixFailure("EINTR", `${this.#key}: its writer was interrupted`);
  }

  /** The error of a close or fsync that comes after a write that was cut off. */
  get loss(): PosixFailure {
    return new PosixFailure("EIO", `${this.#key}: a signal has cut off its last write`);
  }
}

import { Buffer } from "node:buffer";
import { constants } from "node:os";
import { ROOT_NODEID } from "../engine/inode-table.ts";
import { ENTRY_OUT_BYTES, writeUint64 } from "../fuse/encode.ts";
import { OPCODE } from "../fuse/opcode.ts";
import { readUint64 } from "../fuse/request.ts";
import { ErrnoError, readDirents } from "./test-kernel.ts";
import type { TestKernel } from "./test-kernel.ts";

const O_WRONLY_TRUNC = 0o1001;
const CHUNK_BYTES = 11;
const READ_BYTES = 30;
const PAGE_BYTES = 100; // so that a directory is more than one page
const FOPEN_KEEP_CACHE = 1 << 1;
const { errno } = constants;

/** For tests: system calls, each as the requests that the kernel makes of it. */
export class TestProgram {
  readonly #kernel: TestKernel;

  constructor(kernel: TestKernel) {
    this.#kernel = kernel;
  }

  async walk(path: readonly string[]): Promise<number> {
    let nodeid = ROOT_NODEID;
    for (const name of path) nodeid = await this.lookup(nodeid, name);
    return nodeid;
  }

  async lookup(parent: number, name: string): Promise<number> {
    const answer = await this.#kernel.request(OPCODE.LOOKUP, parent, NOTHING, name);
    return this.#kernel.entered(answer);
  }

  async mkdir(parent: number, name: string): Promise<void> {
    const answer = await this.#kernel.request(OPCODE.MKDIR, parent, Buffer.alloc(8), name);
    this.#kernel.entered(answer);
  }

  async rmdir(parent: number, name: string): Promise<void> {
    await this.#kernel.request(OPCODE.RMDIR, parent, NOTHING, name);
  }

  async unlink(parent: number, name: string): Promise<void> {
    await this.#kernel.request(OPCODE.UNLINK, parent, NOTHING, name);
  }

  async list(nodeid: number): Promise<string[]> {
    const handle = readUint64(
      await this.#kernel.request(OPCODE.OPENDIR, nodeid, Buffer.alloc(8)),
      0,
    );
    const names: string[] = [];
    for (let position = 0; ;) {
      const struct = ranged(handle, position, PAGE_BYTES);
      const page = readDirents(await this.#kernel.request(OPCODE.READDIR, nodeid, struct));
      if (page.length === 0) break;
      names.push(...page.map(({ name }) => name));
      position = page.at(-1)?.next ?? 0;
    }
    await this.#kernel.request(OPCODE.RELEASEDIR, nodeid, handled(handle));
    return names.slice(2); // the dots
  }

  async read(nodeid: number): Promise<string> {
    const handle = await this.open(nodeid, 0);
    const text = this.#kernel.pages.get(nodeid) ?? (await this.#readAll(nodeid, handle));
    void this.release(nodeid, handle); // close(2) does not wait for it
    return text;
  }

  async #readAll(nodeid: number, handle: number): Promise<string> {
    let text = "";
    for (;;) {
      const struct = ranged(handle, text.length, READ_BYTES);
      const data = await this.#kernel.request(OPCODE.READ, nodeid, struct);
      if (data.length === 0) return text;
      text += data.toString("latin1");
    }
  }

  async open(nodeid: number, flags: number): Promise<number> {
    const struct = Buffer.alloc(8);
    struct.writeUInt32LE(flags, 0);
    const opened = await this.#kernel.request(OPCODE.OPEN, nodeid, struct);
    if ((opened.readUInt32LE(8) & FOPEN_KEEP_CACHE) === 0) this.#kernel.pages.delete(nodeid);
    return readUint64(opened, 0);
  }

  async create(parent: number, name: string): Promise<{ nodeid: number; handle: number }> {
    const struct = Buffer.alloc(16);
    struct.writeUInt32LE(O_WRONLY_TRUNC, 0);
    const answer = await this.#kernel.request(OPCODE.CREATE, parent, struct, name);
    return { nodeid: this.#kernel.entered(answer), handle: readUint64(answer, ENTRY_OUT_BYTES) };
  }

  /** `syncs`: fsync(2) after the first piece. */
  async write(parent: number, name: string, content: string, syncs: boolean): Promise<void> {
    const { nodeid, handle } = await this.#openToWrite(parent, name);
    for (let at = 0; at < content.length; at += CHUNK_BYTES) {
      await this.writeAt(nodeid, handle, at, content.slice(at, at + CHUNK_BYTES));
      if (at === 0 && syncs) await this.#kernel.request(OPCODE.FSYNC, nodeid, handled(handle));
    }
    await this.flush(nodeid, handle);
    const released = this.release(nodeid, handle);
    if (content === "") await released; // an empty file is made when it is released
  }

  async writeAt(nodeid: number, handle: number, at: number, content: string): Promise<void> {
    const struct = ranged(handle, at, content.length);
    await this.#kernel.request(OPCODE.WRITE, nodeid, struct, Buffer.from(content));
  }

  async flush(nodeid: number, handle: number): Promise<void> {
    await this.#kernel.request(OPCODE.FLUSH, nodeid, handled(handle));
  }

  async release(nodeid: number, handle: number): Promise<void> {
    await this.#kernel.request(OPCODE.RELEASE, nodeid, handled(handle));
  }

  async #openToWrite(parent: number, name: string): Promise<{ nodeid: number; handle: number }> {
    try {
      const nodeid = await this.lookup(parent, name);
      return { nodeid, handle: await this.open(nodeid, O_WRONLY_TRUNC) };
    } catch (error) {
      if (!(error instanceof ErrnoError) || error.errno !== errno.ENOENT) throw error;
      return this.create(parent, name);
    }
  }
}

const NOTHING = Buffer.alloc(0);

function handled(handle: number): Buffer {
  const struct = Buffer.alloc(24);
  writeUint64(struct, handle, 0);
  return struct;
}

function ranged(handle: number, offsetBytes: number, sizeBytes: number): Buffer {
  const struct = Buffer.alloc(40);
  writeUint64(struct, handle, 0);
  writeUint64(struct, offsetBytes, 8);
  struct.writeUInt32LE(sizeBytes, 16);
  return struct;
}

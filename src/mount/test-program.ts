import { Buffer } from "node:buffer";
import { constants } from "node:os";
import { ROOT_NODEID } from "../engine/inode-table.ts";
import { ENTRY_OUT_BYTES, writeUint64 } from "../fuse/encode.ts";
import { OPCODE } from "../fuse/opcode.ts";
import { readUint64 } from "../fuse/request.ts";
import { ErrnoError, readDirents } from "./test-kernel.ts";
import type { TestKernel } from "./test-kernel.ts";

const O_RDWR = 0o2;
const O_WRONLY_TRUNC = 0o1001;
/** Less than the smallest part: a file that was synced after so much can be written on. */
const CHUNK_BYTES = 5;
const READ_BYTES = 30;
const PAGE_BYTES = 100; // so that a directory is more than one page
const FOPEN_DIRECT_IO = 1 << 0;
const FOPEN_KEEP_CACHE = 1 << 1;
const FUSE_WRITE_LOCKOWNER = 1 << 1;
const { errno } = constants;

/** A thread: its own pid, and the lock owner of its process, which stands for its descriptors. */
export interface Thread {
  readonly pid: number;
  readonly lockOwner: number;
}

const MAIN: Thread = { pid: 5_000_042, lockOwner: 0xabcd_1001 };
const WORKER: Thread = { pid: 5_000_043, lockOwner: MAIN.lockOwner };
const OTHER_WORKER: Thread = { pid: 5_000_044, lockOwner: MAIN.lockOwner };
/** A process that has inherited the descriptors. */
const FORKED: Thread = { pid: 5_000_099, lockOwner: 0xabcd_2002 };

/** For tests: system calls, each as the requests that the kernel makes of it. */
export class TestProgram {
  readonly #kernel: TestKernel;
  /** A close has failed: the same failure at release is no news. */
  hasFailed = false;

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

  /** rm -rf, which asks for the kind of each name by trying to unlink it. */
  async removeTree(parent: number, name: string): Promise<void> {
    try {
      return await this.unlink(parent, name);
    } catch (error) {
      if (!(error instanceof ErrnoError) || error.errno !== errno.EISDIR) throw error;
    }
    const nodeid = await this.lookup(parent, name);
    for (const child of await this.list(nodeid)) await this.removeTree(nodeid, child);
    await this.rmdir(parent, name);
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

  /** Like read(), but something happens between the first piece and the rest. */
  async reread(nodeid: number, between: () => Promise<unknown>): Promise<string> {
    const handle = await this.open(nodeid, 0);
    try {
      const known = this.#kernel.pages.get(nodeid);
      const struct = ranged(handle, 0, READ_BYTES);
      const first = known ?? (await this.#kernel.request(OPCODE.READ, nodeid, struct));
      await between();
      return await this.#readAll(nodeid, handle, first.toString("latin1"));
    } finally {
      void this.release(nodeid, handle);
    }
  }

  async #readAll(nodeid: number, handle: number, start = ""): Promise<string> {
    let text = start;
    for (;;) {
      const struct = ranged(handle, text.length, READ_BYTES);
      const data = await this.#kernel.request(OPCODE.READ, nodeid, struct);
      if (data.length === 0) return text;
      text += data.toString("latin1");
    }
  }

  async open(nodeid: number, flags: number): Promise<number> {
    return readUint64(await this.#opened(nodeid, flags), 0);
  }

  /** mmap(2) for stores that others see, which the kernel refuses for direct I/O. */
  async map(nodeid: number): Promise<void> {
    const opened = await this.#opened(nodeid, O_RDWR);
    const isDirect = (opened.readUInt32LE(8) & FOPEN_DIRECT_IO) !== 0;
    void this.release(nodeid, readUint64(opened, 0));
    if (isDirect) throw new ErrnoError(errno.ENODEV);
  }

  async #opened(nodeid: number, flags: number): Promise<Buffer> {
    const struct = Buffer.alloc(8);
    struct.writeUInt32LE(flags, 0);
    const opened = await this.#kernel.request(OPCODE.OPEN, nodeid, struct);
    if ((opened.readUInt32LE(8) & FOPEN_KEEP_CACHE) === 0) this.#kernel.pages.delete(nodeid);
    return opened;
  }

  async create(parent: number, name: string): Promise<{ nodeid: number; handle: number }> {
    const struct = Buffer.alloc(16);
    struct.writeUInt32LE(O_WRONLY_TRUNC, 0);
    const answer = await this.#kernel.request(OPCODE.CREATE, parent, struct, name);
    return { nodeid: this.#kernel.entered(answer), handle: readUint64(answer, ENTRY_OUT_BYTES) };
  }

  /** `syncs`: fsync(2) after the first piece. */
  async write(parent: number, name: string, content: string, syncs: boolean): Promise<void> {
    const { nodeid, handle } = await this.openToWrite(parent, name);
    for (let at = 0; at < content.length; at += CHUNK_BYTES) {
      await this.writeAt(nodeid, handle, at, content.slice(at, at + CHUNK_BYTES));
      if (at === 0 && syncs) await this.sync(nodeid, handle);
    }
    await this.flush(nodeid, handle);
    const released = this.release(nodeid, handle);
    if (content === "") await released.then(() => this.#untilUploaded(nodeid));
  }

  /** An empty file is uploaded behind the answer to its RELEASE; an open waits for that. */
  async #untilUploaded(nodeid: number): Promise<void> {
    await this.release(nodeid, await this.open(nodeid, 0));
  }

  /** Opened by one thread, written and closed by others; a forked process closes its copy first. */
  async share(parent: number, name: string, content: string): Promise<void> {
    const { nodeid, handle } = await this.openToWrite(parent, name);
    for (let at = 0; at < content.length; at += CHUNK_BYTES) {
      if (at > 0) await this.flush(nodeid, handle, FORKED);
      await this.writeAt(nodeid, handle, at, content.slice(at, at + CHUNK_BYTES), WORKER);
    }
    await this.flush(nodeid, handle, FORKED);
    await this.flush(nodeid, handle, OTHER_WORKER);
    const released = this.release(nodeid, handle);
    if (content === "") await released.then(() => this.#untilUploaded(nodeid));
  }

  /** The errnos of a write that is not at the end, of the next one at the end, and of the close. */
  async writeAstray(parent: number, name: string, first: string, at: number): Promise<number[]> {
    const { nodeid, handle } = await this.openToWrite(parent, name);
    await this.writeAt(nodeid, handle, 0, first);
    const outcomes = [
      await errnoOf(this.writeAt(nodeid, handle, at, first)),
      await errnoOf(this.writeAt(nodeid, handle, first.length, first)),
      await errnoOf(this.flush(nodeid, handle)),
    ];
    void this.release(nodeid, handle);
    return outcomes;
  }

  async writeAt(
    nodeid: number,
    handle: number,
    at: number,
    content: string,
    { pid, lockOwner }: Thread = MAIN,
  ): Promise<void> {
    const struct = ranged(handle, at, content.length);
    struct.writeUInt32LE(FUSE_WRITE_LOCKOWNER, 20);
    writeUint64(struct, lockOwner, 24);
    await this.#kernel.request(OPCODE.WRITE, nodeid, struct, Buffer.from(content), pid);
  }

  async flush(nodeid: number, handle: number, { pid, lockOwner }: Thread = MAIN): Promise<void> {
    const struct = handled(handle);
    writeUint64(struct, lockOwner, 16);
    try {
      await this.#kernel.request(OPCODE.FLUSH, nodeid, struct, "", pid);
    } catch (error) {
      this.hasFailed = true;
      throw error;
    }
  }

  async sync(nodeid: number, handle: number): Promise<void> {
    await this.#kernel.request(OPCODE.FSYNC, nodeid, handled(handle));
  }

  async release(nodeid: number, handle: number): Promise<void> {
    await this.#kernel.request(OPCODE.RELEASE, nodeid, handled(handle));
  }

  async openToWrite(parent: number, name: string): Promise<{ nodeid: number; handle: number }> {
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

/** 0 for a call that succeeds. */
async function errnoOf(call: Promise<void>): Promise<number> {
  try {
    await call;
    return 0;
  } catch (error) {
    if (error instanceof ErrnoError) return error.errno;
    throw error;
  }
}

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

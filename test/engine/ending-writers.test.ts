import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { keyOf } from "../../tools/stack/relay.ts";
import { mountBucket } from "./engine-process.ts";
import type { MountedBucket } from "./engine-process.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { TestBucket } from "./test-bucket.ts";

const PART_BYTES = 5 << 20;
const ARGS = ["--allow-overwrite", "--write-part-size", String(PART_BYTES)];
/** More than a part: a multipart upload is under way when the mount ends. */
const LARGE = `head -c ${PART_BYTES + 1_000_000} /dev/zero`;
const WRITERS = 46;
/** So many parts are on their way to S3 when the mount ends; the others have arrived. */
const HELD_PARTS = 6;

/** Shells that have their file open until they are killed. */
class Writers implements AsyncDisposable {
  readonly #shells: ChildProcess[] = [];

  /** Resolves when the commands have run. Rejects when the shell ends before that. */
  async start(path: string, commands: string): Promise<void> {
    // A builtin would redirect the shell's own descriptor, which closes the file by its opener.
    const script = `{ ${commands}; /bin/echo written >&2; exec sleep 1000; } > ${path}`;
    const shell = spawn("bash", ["-c", script], { stdio: ["ignore", "ignore", "pipe"] });
    this.#shells.push(shell);
    assert(shell.stderr !== null);
    const ended = once(shell, "close").then(([status, signal]) => {
      throw new Error(`the shell of ${path} has ended (${status ?? signal}) and written nothing`);
    });
    const [said] = await Promise.race([once(shell.stderr, "data"), ended]);
    assert.equal(String(said), "written\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.#shells.map(async (shell) => {
        const ended = once(shell, "exit");
        if (shell.exitCode !== null || shell.signalCode !== null) return;
        shell.kill("SIGKILL");
        await ended;
      }),
    );
  }
}

/** Between engine and S3: holds the first parts, and knows of which keys a part was sent. */
class PartGate implements AsyncDisposable {
  readonly #proxy: FaultProxy;
  readonly #gate = Promise.withResolvers<void>();
  readonly #awaited = new Map<string, PromiseWithResolvers<void>>();
  #held = 0;

  private constructor(proxy: FaultProxy) {
    this.#proxy = proxy;
    proxy.hold = (request) => this.#hold(request);
  }

  static async start(bucket: TestBucket): Promise<PartGate> {
    return new PartGate(await FaultProxy.start(bucket.access.endpoint, () => undefined));
  }

  get url(): string {
    return this.#proxy.url;
  }

  async sent(keys: readonly string[]): Promise<void> {
    await Promise.all(keys.map((key) => this.#of(key).promise));
  }

  #hold(request: IncomingMessage): Promise<void> | undefined {
    const isPart = request.method === "PUT" && request.url?.includes("partNumber=") === true;
    if (!isPart) return undefined;
    this.#of(keyOf(request)).resolve();
    this.#held += 1;
    return this.#held <= HELD_PARTS ? this.#gate.promise : undefined;
  }

  #of(key: string): PromiseWithResolvers<void> {
    const known = this.#awaited.get(key) ?? Promise.withResolvers<void>();
    this.#awaited.set(key, known);
    return known;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#gate.resolve();
    await this.#proxy[Symbol.asyncDispose]();
  }
}

describe("a mount that ends while files are open", () => {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start();
    await bucket.put("replaced", "old");
  });
  after(() => bucket[Symbol.asyncDispose]());

  const ENDS: Readonly<Record<string, (mount: MountedBucket) => void>> = {
    "umount -f": ({ dir }) => void spawnSync("umount", ["-f", dir]), // aborts, and says EBUSY
    "umount -f -l": ({ dir }) => void spawnSync("umount", ["-f", "-l", dir]),
    SIGTERM: ({ engine }) => void engine.child.kill("SIGTERM"),
  };
  for (const [name, end] of Object.entries(ENDS)) {
    test(`${name} with ${WRITERS} writers: nothing is published, and no upload is left`, async () => {
      await using gate = await PartGate.start(bucket);
      await using mount = await mountBucket(bucket, ARGS, { AWS_ENDPOINT_URL: gate.url });
      await using writers = new Writers();
      const large = Array.from({ length: WRITERS }, (_, n) => `large-${n}`);
      const start = (key: string, commands: string) =>
        writers.start(join(mount.dir, key), commands);
      const small = [
        start("group", "echo head; /bin/echo more"),
        start("only-child", "/bin/echo more"),
        start("empty", ":"),
        start("replaced", "/bin/echo new"),
      ];
      await Promise.all(small);
      const written = large.map((key) => start(key, LARGE));
      await gate.sent(large);
      assert((await bucket.unfinishedUploads()) >= WRITERS);
      end(mount);
      await Promise.allSettled(written); // a head(1) that has not written all of it says so
      assert.equal((await mount.engine.ended).status, 0);
      assert.deepEqual(await bucket.keys(), ["replaced"]);
      assert.equal((await bucket.get("replaced")).toString(), "old");
      assert.equal(await bucket.unfinishedUploads(), 0);
    });
  }

  test("a writer that ends before it has written is an error of the test", async () => {
    await using writers = new Writers();
    const started = writers.start("/dev/null", "exit 3");
    await assert.rejects(started, /the shell of \/dev\/null has ended \(3\)/);
  });

  test("umount -f keeps what was closed and synced before", async () => {
    await using mount = await mountBucket(bucket, ARGS);
    await using writers = new Writers();
    await fs.writeFile(join(mount.dir, "closed"), "all of it");
    const sync = "python3 -c 'import os; os.fsync(1)'";
    await writers.start(join(mount.dir, "synced"), `echo all of it; ${sync}`);
    spawnSync("umount", ["-f", mount.dir]);
    assert.equal((await mount.engine.ended).status, 0);
    assert.deepEqual(await bucket.keys(), ["closed", "replaced", "synced"]);
  });
});

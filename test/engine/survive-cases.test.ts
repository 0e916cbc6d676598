import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { opendirSync } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { EngineKiller } from "../../tools/bench/survive/engine-killer.ts";
import { mountShipped } from "./engine-process.ts";
import { MODES } from "./resume-modes.ts";
import { TcpGate } from "./tcp-gate.ts";
import { TestBucket } from "./test-bucket.ts";

const FULL = process.env["FULL"] === "1";
const READERS = 950;
const WRITERS = 50;
const LISTED = FULL ? 5_000 : 1_500;
const CALLS = FULL ? 200 : 6;
const MIB = 1 << 20;

const contentOf = (n: number) => `content of ${n}`.repeat(20);

for (const [mode, options] of Object.entries(MODES)) {
  describe(`a mount whose engine dies, ${mode}`, () => {
    let bucket: TestBucket;
    before(async () => {
      bucket = await TestBucket.start();
    });
    after(() => bucket[Symbol.asyncDispose]());

    async function mountAt(prefix: string, env: NodeJS.ProcessEnv = {}) {
      const args = ["--allow-delete", "--allow-overwrite", "--prefix", `${prefix}/`];
      const mount = await mountShipped(bucket, [...args, ...options], env);
      const killer = new EngineKiller(mount.engine.child);
      const at = (name: string) => join(mount.dir, name);
      return { ...mount, killer, at, [Symbol.asyncDispose]: () => mount[Symbol.asyncDispose]() };
    }

    test("while S3 is out of reach: reader and writer go on when it is back", async () => {
      await using gate = await TcpGate.start(bucket.access.endpoint);
      const bytes = randomBytes(40 * MIB);
      await bucket.put("gate/read", bytes);
      await using mount = await mountAt("gate", { AWS_ENDPOINT_URL: gate.url });
      await using reader = await fs.open(mount.at("read"));
      await using writer = await fs.open(mount.at("written"), "w");
      await reader.read(Buffer.alloc(MIB), 0, MIB, 0);
      await writer.write(bytes, 0, 20 * MIB);
      await gate.shut();
      const rest = reader.readFile();
      const written = writer.write(bytes, 20 * MIB);
      for (let n = 0; n < 3; n++) {
        await mount.killer.kill();
        await mount.killer.untilServing();
      }
      await gate.open();
      assert((await rest).equals(bytes), "as read");
      await written;
      await writer.close();
      assert((await bucket.get("gate/written")).equals(bytes), "as stored");
      assert.equal(await bucket.unfinishedUploads(), 0);
    });

    test("again while its successor resumes, and twice at once", async () => {
      const bytes = randomBytes(24 * MIB);
      await bucket.put("twice/read", bytes);
      await using mount = await mountAt("twice");
      await using writer = await fs.open(mount.at("written"), "w");
      await using reader = await fs.open(mount.at("read"));
      const into = Buffer.alloc(MIB);
      for (let n = 0; n < 24; n++) {
        const reading = reader.read(into, 0, MIB, n * MIB);
        const writing = writer.write(bytes, n * MIB, MIB);
        if (n % 3 === 0) {
          await mount.killer.kill();
          await delay(Math.random() * 300); // somewhere between its start and its first answer
          await mount.killer.kill();
          const { enginePid } = mount.killer;
          if (enginePid !== undefined) process.kill(enginePid, "SIGKILL");
        }
        await Promise.all([reading, writing]);
        assert(into.equals(bytes.subarray(n * MIB, (n + 1) * MIB)), `MiB ${n}`);
      }
      await writer.close();
      assert((await bucket.get("twice/written")).equals(bytes), "as stored");
    });

    test(`${READERS} open readers and ${WRITERS} writers go on`, async () => {
      for (let n = 0; n < 20; n++) await bucket.put(`many/${n}`, contentOf(n));
      await using mount = await mountAt("many");
      await using open = new AsyncDisposableStack();
      const readers: fs.FileHandle[] = [];
      for (let n = 0; n < READERS; n++) {
        readers.push(open.use(await fs.open(mount.at(String(n % 20)))));
      }
      const writers: fs.FileHandle[] = [];
      for (let n = 0; n < WRITERS; n++) {
        const writer = open.use(await fs.open(mount.at(`written-${n}`), "w"));
        await writer.write("before, ");
        writers.push(writer);
      }
      await mount.killer.kill();
      for (const [n, reader] of readers.entries()) {
        assert.equal(await reader.readFile("utf8"), contentOf(n % 20));
      }
      for (const writer of writers) await writer.write("after");
      await mount.killer.kill();
      await open.disposeAsync();
      for (let n = 0; n < WRITERS; n++) {
        assert.equal((await bucket.get(`many/written-${n}`)).toString(), "before, after");
      }
    });

    test(`a directory of ${LISTED} is listed over kills: each name once`, async () => {
      const names = Array.from({ length: LISTED }, (_, n) => `entry-${n}`);
      for (let n = 0; n < LISTED; n += 25) {
        await Promise.all(names.slice(n, n + 25).map((name) => bucket.put(`list/d/${name}`, "x")));
      }
      await using mount = await mountAt("list");
      // Little by little: each read of the kernel's is answered by another engine.
      const directory = opendirSync(mount.at("d"), { bufferSize: 50 });
      const found: string[] = [];
      for await (const { name } of directory) {
        found.push(name);
        if (found.length % (LISTED / 5) === 100) await mount.killer.kill();
      }
      assert.deepEqual(found.toSorted(), names.toSorted());
    });

    test("a file deleted or replaced while it is open means the same as without kills", async () => {
      const [old, next] = [randomBytes(30 * MIB), randomBytes(30 * MIB)];
      const outcomes: string[][] = [];
      for (const kills of [0, 1]) {
        await using mount = await mountAt(`pinned-${kills}`);
        const said: string[] = [];
        for (const change of ["delete", "replace"] as const) {
          const key = `pinned-${kills}/${change}`;
          await bucket.put(key, old);
          await using reader = await fs.open(mount.at(change));
          const first = Buffer.alloc(MIB);
          await reader.read(first, 0, MIB, 0);
          assert(first.equals(old.subarray(0, MIB)));
          if (change === "delete") await fs.unlink(mount.at(change));
          else await bucket.put(key, next);
          if (kills > 0) await mount.killer.kill();
          // Far behind all that was read ahead, and nothing of the new version is ever seen.
          const last = Buffer.alloc(MIB);
          const read = reader.read(last, 0, MIB, 29 * MIB);
          const error = await read.then(
            () => (last.equals(old.subarray(29 * MIB)) ? "old bytes" : "wrong bytes"),
            (failure: NodeJS.ErrnoException) => failure.code ?? "",
          );
          said.push(`${change}: ${error}`);
        }
        outcomes.push(said);
      }
      assert.deepEqual(outcomes[1], outcomes[0]);
      assert(!outcomes.flat().join().includes("wrong"), outcomes.flat().join());
    });

    test(`calls that change names are run once, ${CALLS} of each with a kill`, async (t) => {
      await using mount = await mountAt("calls");
      const path = mount.at("name");
      const verbs: Record<string, () => Promise<unknown>> = {
        create: async () => (await fs.open(path, "wx")).close(),
        unlink: () => fs.unlink(path),
        mkdir: () => fs.mkdir(path),
        rmdir: () => fs.rmdir(path),
      };
      for (let n = 0; n < CALLS; n++) {
        for (const [verb, call] of Object.entries(verbs)) {
          const delayMs = Math.random() * 20;
          const killed = delay(delayMs).then(() => mount.killer.kill());
          await call().catch((error: unknown) => {
            throw new Error(`${verb} ${n}, kill after ${delayMs} ms: ${String(error)}`);
          });
          await killed;
          await mount.killer.untilServing();
          const exists = await fs.stat(path).then(
            () => true,
            () => false,
          );
          assert.equal(exists, verb === "create" || verb === "mkdir", `${verb} ${n}`);
        }
      }
      t.diagnostic(`${mount.killer.kills} kills`);
    });
  });
}

test("without a journal the mount ends with its engine, and says why", async () => {
  await using bucket = await TestBucket.start();
  await bucket.put("file", "content");
  await using mount = await mountShipped(bucket, ["--no-journal"]);
  assert.equal(await fs.readFile(join(mount.dir, "file"), "utf8"), "content");
  await new EngineKiller(mount.engine.child).kill();
  const { status, stderr } = await mount.engine.ended;
  assert.equal(status, 1);
  assert.match(stderr, /--no-journal/);
});

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { S3Server } from "../../tools/stack/s3-server.ts";
import { S3_SERVERS } from "../../tools/stack/s3-servers.ts";
import { FaultProxy, FAULTS } from "./fault-proxy.ts";
import type { Fault } from "./fault-proxy.ts";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const FAULTY_SHARE = 0.15;
const SIZES = [0, 1, 4096, 1_000_000, 5_242_880, 5_242_881, 12_000_000];

const noFault = (): Fault | undefined => undefined;
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** The same faults for the same seed, as far as the engine asks in the same order. */
function faultsFrom(seed: number): () => Fault | undefined {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  return () => (next() < FAULTY_SHARE ? FAULTS[Math.floor(next() * FAULTS.length)] : undefined);
}

for (const [server, startServer] of Object.entries(S3_SERVERS)) {
  describe(`with a bad network between engine and ${server}`, () => faults(startServer));
}

function faults(startServer: () => Promise<S3Server>): void {
  let bucket: TestBucket;
  before(async () => {
    bucket = await TestBucket.start(startServer);
  });
  after(() => bucket[Symbol.asyncDispose]());

  const seed = Number(process.env["FAULT_SEED"] ?? Date.now() % 1_000_000);
  test(`every byte arrives, both ways, FAULT_SEED=${seed}`, async () => {
    let decide = noFault;
    await using proxy = await FaultProxy.start(bucket.access.endpoint, () => decide());
    const args = ["--endpoint-url", proxy.url, "--part-size", "5242880", "--allow-delete"];
    await using mount = await mountBucket(bucket, args);
    decide = faultsFrom(seed);
    const files = SIZES.map((size, n) => ({ name: `file-${n}`, bytes: randomBytes(size) }));
    for (const { name, bytes } of files) await fs.writeFile(join(mount.dir, name), bytes);
    const names = await fs.readdir(mount.dir);
    assert.deepEqual(
      names,
      files.map(({ name }) => name).filter((name) => names.includes(name)),
    );
    for (const { name, bytes } of files.slice(1)) {
      assert.equal(sha256(await bucket.get(name)), sha256(bytes), `${name} as written`);
      await bucket.put(`from-elsewhere/${name}`, bytes);
    }
    for (const { name, bytes } of files.slice(1)) {
      const read = await fs.readFile(join(mount.dir, "from-elsewhere", name));
      assert.equal(sha256(read), sha256(bytes), `${name} as read`);
    }
    for (const fault of FAULTS) {
      decide = once(fault);
      const bytes = randomBytes(50_000);
      await fs.writeFile(join(mount.dir, `last ${fault}`), bytes);
      assert.deepEqual(await bucket.get(`last ${fault}`), bytes, fault);
      await bucket.put(`read ${fault}`, bytes);
      await fs.stat(join(mount.dir, `read ${fault}`));
      decide = once(fault);
      assert.deepEqual(await fs.readFile(join(mount.dir, `read ${fault}`)), bytes, fault);
    }
    for (const fault of FAULTS) assert(proxy.counts.has(fault), `${fault} never happened`);
    decide = noFault;
    for (const name of await fs.readdir(mount.dir)) {
      if (name !== "from-elsewhere") await fs.unlink(join(mount.dir, name));
    }
    assert((await proxy.openConnections) <= 64, "connections are given back");
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    assert.equal(await bucket.unfinishedUploads(), 0);
  });
}

function once(fault: Fault): () => Fault | undefined {
  let left = 1;
  return () => (left-- > 0 ? fault : undefined);
}

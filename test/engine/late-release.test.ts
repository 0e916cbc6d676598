import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";
import { bodyOf, Relay } from "../../tools/stack/relay.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { mountBucket } from "./engine-process.ts";
import { TestBucket } from "./test-bucket.ts";

const READERS = 100;
/** So many GETs of objects run at once. */
const GETS_MAX = 48;
const FILE_BYTES = 3 << 20;
const BEGINNING_BYTES = 1 << 20;
/** Longer than a RELEASE is waited for that nothing keeps back. */
const SLOW_MS = 2_500;

/** Between engine and S3: sends the beginning of an object, and the rest later. */
class PausingProxy extends Relay {
  static start(target: string): Promise<PausingProxy> {
    return new PausingProxy(target).listen();
  }

  protected async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, headers, body } = await this.forward(request, await bodyOf(request));
    response.writeHead(status, headers);
    if (request.method === "GET" && body.length > BEGINNING_BYTES) {
      response.write(body.subarray(0, BEGINNING_BYTES));
      await sleep(SLOW_MS);
      response.end(body.subarray(BEGINNING_BYTES));
    } else {
      response.end(body);
    }
  }
}

/** The shell's exit status; what it says is shown. */
async function run(script: string): Promise<number> {
  const shell = spawn("bash", ["-c", script], { stdio: ["ignore", "ignore", "inherit"] });
  return (await once(shell, "exit"))[0] as number;
}

test("an empty file can be read as soon as it is closed, while all reads of others wait", async () => {
  await using bucket = await TestBucket.start();
  const names = Array.from({ length: READERS }, (_, n) => `read-${n}`);
  await Promise.all(names.map((name) => bucket.put(name, Buffer.alloc(FILE_BYTES, 1))));
  const gate = Promise.withResolvers<void>();
  const allWait = Promise.withResolvers<void>();
  let gets = 0;
  await using proxy = await FaultProxy.start(bucket.access.endpoint, () => undefined);
  proxy.hold = ({ method, url }) => {
    if (method !== "GET" || url?.includes("/read-") !== true) return undefined;
    gets += 1;
    if (gets === GETS_MAX) allWait.resolve();
    return gate.promise;
  };
  const args = ["--endpoint-url", proxy.url, "--allow-overwrite"];
  await using mount = await mountBucket(bucket, args);
  await using owned = new AsyncDisposableStack();
  owned.defer(() => gate.resolve());
  const readers = names.map((name) => run(`cat ${join(mount.dir, name)} > /dev/null`));
  await allWait.promise;
  await sleep(500); // READs that wait for a connection are in no request to S3
  const stamp = join(mount.dir, "stamp");
  const read = run(`: > ${stamp}; cat ${stamp}`);
  const written = run(`: > ${stamp}-2; echo x > ${stamp}-2`);
  await sleep(SLOW_MS);
  gate.resolve();
  assert.deepEqual([await read, await written], [0, 0]);
  assert.equal((await bucket.get("stamp-2")).toString(), "x\n");
  for (const reader of readers) assert.equal(await reader, 0);
});

test("a file can be overwritten as soon as its reader has closed it, however slow S3 is", async () => {
  await using bucket = await TestBucket.start();
  await bucket.put("file", Buffer.alloc(8 << 20, 1));
  await using proxy = await PausingProxy.start(bucket.access.endpoint);
  const args = ["--endpoint-url", proxy.url, "--allow-overwrite"];
  await using mount = await mountBucket(bucket, args);
  const file = join(mount.dir, "file");
  // The kernel still reads ahead when the program closes the file.
  const read = `dd if=${file} of=/dev/null bs=512K count=2 status=none`;
  assert.equal(await run(`${read}; echo new > ${file}`), 0);
  assert.equal((await bucket.get("file")).toString(), "new\n");
});

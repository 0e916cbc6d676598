import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { closeSync } from "node:fs";
import { open, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { ARCHITECTURES, OWN_ARCHITECTURE } from "../../tools/image/architecture.ts";
import { IMAGE_ARCHIVE } from "../../tools/image.ts";
import { run } from "../../tools/run.ts";
import { childrenOf } from "../../tools/stack/processes.ts";
import manifest from "../../package.json" with { type: "json" };
import { engineEnvironment } from "../engine/engine-process.ts";
import { TestBucket } from "../engine/test-bucket.ts";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { installChart } from "../reconciler/control-plane.ts";
import type { InstalledChart } from "../reconciler/control-plane.ts";
import { mountFuse, openFuseDevice } from "../../src/sys/fuse-mount.ts";
import type { RoleProcess } from "../health/role-process.ts";
import { Bench } from "../reconciler/objects.ts";
import { ForeignMachine } from "./foreign-machine.ts";

const TIMEOUT = { timeout: 120_000 };
const FOREIGN = ARCHITECTURES.find((one) => one !== OWN_ARCHITECTURE) ?? OWN_ARCHITECTURE;

const stop = new AbortController();
let chart: InstalledChart;
let machine: ForeignMachine;

before(async () => {
  chart = await installChart();
  machine = await ForeignMachine.start(FOREIGN, dirname(chart.kubeconfig));
}, TIMEOUT);
after(async () => {
  stop.abort();
  await machine[Symbol.asyncDispose]();
  await chart[Symbol.asyncDispose]();
});

interface Descriptor {
  readonly digest: string;
  readonly platform?: { readonly architecture: string; readonly os: string };
}

async function blob<T>({ digest }: Descriptor): Promise<T> {
  const path = `blobs/${digest.replace(":", "/")}`;
  return JSON.parse(await run("tar", ["-xOf", IMAGE_ARCHIVE, path])) as T;
}

test("the archive is one index with an image for each architecture", async () => {
  const text = await run("tar", ["-xOf", IMAGE_ARCHIVE, "index.json"]);
  const { manifests } = JSON.parse(text) as { manifests: Descriptor[] };
  const [named] = manifests;
  assert(named !== undefined && manifests.length === 1);
  const index = await blob<{ manifests: Descriptor[] }>(named);
  const platforms = index.manifests.map(({ platform }) => platform);
  assert.deepEqual(
    platforms,
    ARCHITECTURES.map((architecture) => ({ architecture, os: "linux" })),
  );
  for (const one of index.manifests) {
    const { config } = await blob<{ config: Descriptor }>(one);
    const { architecture, os } = await blob<{ architecture: string; os: string }>(config);
    assert.deepEqual({ architecture, os }, one.platform);
  }
});

test("the image of the other architecture tells its version", TIMEOUT, async () => {
  assert.equal(await machine.output("--version"), `s3csi ${manifest.version}\n`);
});

test("its controller leads, and gives a workload its Mountpoint Pod", TIMEOUT, async () => {
  const bench = new Bench(chart.admin, stop.signal);
  await bench.start();
  const args = ["controller", `--kubeconfig=${chart.kubeconfig}`, "--health-port=0"];
  const env = { POD_NAME: "foreign", POD_NAMESPACE: "default" };
  await using controller = machine.start([...args, "--endpoint=unix:///tmp/csi.sock"], { env });
  await controller.untilReadyz(stop.signal);
  await controller.logged("elected");
  await bench.volume("pv-foreign");
  const { pod } = await bench.served(await bench.workload("workload", "pv-foreign"));
  assert.match(pod, /^mp-[0-9a-f]{56}$/);
});

test("its engine reads and writes a bucket, also when it is killed", TIMEOUT, async () => {
  await using owned = new AsyncDisposableStack();
  const bucket = owned.use(await TestBucket.start());
  const content = randomBytes(40 << 20);
  await bucket.put("large", content);
  // As in a Mountpoint Pod: the node mounts, the image's program serves.
  const { path: dir } = owned.use(await temporaryDirectory());
  const fd = openFuseDevice();
  owned.defer(() => closeSync(fd));
  mountFuse(fd, dir, { readOnly: false, source: bucket.name });
  const args = ["mount", bucket.name, "/dev/fd/3", "--allow-root"];
  const mount = owned.use(machine.start(args, { env: engineEnvironment(bucket), fd }));
  await mount.logged('"msg":"mounted"');

  await using file = await open(join(dir, "large"));
  const head = Buffer.alloc(1 << 20);
  await file.read(head);
  const engine = engineOf(mount);
  process.kill(engine, "SIGKILL");
  const read = Buffer.concat([head, await file.readFile()]);
  assert(read.equals(content), "the bytes that were read are the object's");
  assert.notEqual(engineOf(mount), engine);
  await writeFile(join(dir, "copy"), content);
  assert((await bucket.get("copy")).equals(content), "the object has the bytes that were written");
});

function engineOf({ pid }: RoleProcess): number {
  const [supervisor = -1] = childrenOf(pid);
  const [engine = -1] = childrenOf(supervisor);
  return engine;
}

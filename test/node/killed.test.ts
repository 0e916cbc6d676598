import assert from "node:assert/strict";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Client } from "@connectrpc/connect";
import { Node, VolumeCapability_AccessMode_Mode as Mode } from "../../src/csi/gen/csi_pb.ts";
import { socketPathOf } from "../../src/csi/serve.ts";
import { readMounts } from "../../src/sys/mount-info.ts";
import type { RoleProcess } from "../health/role-process.ts";
import { PlayedNode } from "../sanity/played-node.ts";
import type { Wanted } from "../sanity/played-node.ts";
import { grpcClient } from "./grpc-client.ts";
import type { KillOrder } from "./kill-at-call.ts";
import { openDescriptors } from "./open-descriptors.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

/** The calls of a volume's life that others can see. Between two of them nothing else happens. */
const PUBLISHING: Readonly<Record<string, string>> = {
  "connect to the mounter": "^connect ",
  "open the device": "^openSync /dev/fuse",
  "make the source's directory": "^mkdirSync .*/mnt/mp-",
  "mount the source": "^mount s3csi:",
  "hand it over": '^sendmsg \\{"do":"mount"',
  "take the handle to end it": "^openSync /proc/self/fd/.*/abort",
  "make the target": "^mkdirSync .*/kubernetes\\.io~csi/",
  "bind it": "^move_mount ",
  "say that it is published": "^writeSync .*volume published",
};
const ADOPTING: Readonly<Record<string, string>> = {
  "ask for its descriptors": '^sendmsg \\{"do":"share"',
};
const UNPUBLISHING: Readonly<Record<string, string>> = {
  "take off the bind": "^umount2 .*/kubernetes\\.io~csi/",
  "remove the target": "^rmdirSync .*/kubernetes\\.io~csi/",
  "say that it is unpublished": "^writeSync .*volume unpublished",
};
const TAKING_DOWN: Readonly<Record<string, string>> = {
  "tell the mounter to finish": '^sendmsg \\{"do":"finish"',
  "take off the source": "^umount2 .*/mnt/mp-",
  "remove the source's directory": "^rmdirSync .*/mnt/mp-",
  "say that it is off": "^writeSync .*source unmounted",
};
/** FULL=1 is the long form: right before a step is nearly always right after the last one. */
const WHEN = process.env["FULL"] === "1" ? (["before", "after"] as const) : (["after"] as const);
const TIMEOUT = { timeout: 120_000 };
/** The kubelet comes again for these; any other is final. */
const AGAIN: ReadonlySet<Code> = new Set([Code.Aborted, Code.DeadlineExceeded, Code.Unavailable]);
const AGAIN_AFTER_MS = 500;
const LOOK_AGAIN_AFTER_MS = 20;
const CONTENT = "what the workload wrote";
const PRELOAD = join(import.meta.dirname, "kill-at-call.ts");
const DRIVER = "s3.csi.scality.com";

const owned = new AsyncDisposableStack();
let played: PlayedNode;
let orderFile: string;
let service: RoleProcess;
let node: Client<typeof Node>;
/** What the node service holds while there is no volume, apart from its connections. */
let idle: readonly string[];
let cases = 0;

before(async () => {
  orderFile = join(owned.use(await temporaryDirectory()).path, "order");
  played = owned.use(await PlayedNode.start());
  service = await nextLife();
  node = grpcClient(Node, socketPathOf(played.endpoint));
  idle = heldBy(service);
}, TIMEOUT);
after(() => owned.disposeAsync());

function nextLife(): Promise<RoleProcess> {
  return played.startService({ NODE_OPTIONS: `--import=${PRELOAD}`, KILL_ORDER: orderFile });
}

function arm(when: KillOrder["when"], call: string): void {
  writeFileSync(orderFile, JSON.stringify({ when, call } satisfies KillOrder));
}

async function reborn(): Promise<void> {
  assert.equal(await service.ended, null, "by a signal");
  rmSync(orderFile);
  service = await nextLife();
}

interface Volume extends Wanted {
  readonly workload: string;
  readonly volumeId: string;
}

async function wanted(): Promise<Volume> {
  const name = `v-${++cases}`;
  await played.volume(name);
  const workload = `w-${cases}`;
  return { ...(await played.workload(workload, name)), workload, volumeId: `${name}-handle` };
}

async function publish({ volumeId, target: targetPath, volumeContext }: Volume): Promise<void> {
  const accessMode = { mode: Mode.MULTI_NODE_MULTI_WRITER };
  const mount = { case: "mount" as const, value: { mountFlags: ["allow-delete"] } };
  const volumeCapability = { accessMode, accessType: mount };
  await node.nodePublishVolume({ volumeId, targetPath, volumeContext, volumeCapability });
}

async function unpublish({ volumeId, target: targetPath }: Volume): Promise<void> {
  await node.nodeUnpublishVolume({ volumeId, targetPath });
}

/** As the kubelet does it: again and again, unless the answer is final. */
async function insist(call: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ConnectError) || !AGAIN.has(error.code)) throw error;
      await sleep(AGAIN_AFTER_MS);
    }
  }
}

async function writtenTo({ target, workload }: Volume): Promise<void> {
  await fs.writeFile(join(target, workload), CONTENT);
}

/** The bytes are in S3, and that is all there is. */
async function assertOver({ target, workload }: Volume): Promise<void> {
  await assertCleared(target);
  assert.equal((await played.bucket.get(workload)).toString(), CONTENT);
}

async function assertCleared(target: string): Promise<void> {
  await played.settled();
  const plugin = join(played.kubeletPath, "plugins", DRIVER);
  const files = () => readdirSync(plugin, { recursive: true, encoding: "utf8" }).toSorted();
  await becomes(files, ["csi.sock", "mnt"]);
  const mounts = readMounts().filter(({ mountPoint }) => mountPoint.startsWith(played.kubeletPath));
  assert.deepEqual(mounts, []);
  assert(!existsSync(target));
  await becomes(() => heldBy(service), idle);
}

/** In another process: nobody tells when. The test's own limit ends the loop. */
async function becomes(now: () => readonly string[], then: readonly string[]): Promise<void> {
  while (now().join() !== then.join()) await sleep(LOOK_AGAIN_AFTER_MS);
}

function heldBy({ pid }: RoleProcess): readonly string[] {
  return openDescriptors(pid).filter((what) => !what.startsWith("socket:"));
}

for (const [name, call] of Object.entries(PUBLISHING)) {
  for (const when of WHEN) {
    test(`killed ${when} it could ${name}: published in the end`, TIMEOUT, async () => {
      const volume = await wanted();
      arm(when, call);
      await assert.rejects(publish(volume));
      await reborn();
      await insist(() => publish(volume));
      await writtenTo(volume);
      await unpublish(volume);
      await played.removeWorkload(volume.workload);
      await assertOver(volume);
    });
  }
  test(`killed after it could ${name}, then the pod is deleted: no orphan`, TIMEOUT, async () => {
    const volume = await wanted();
    arm("after", call);
    await assert.rejects(publish(volume));
    await played.removeWorkload(volume.workload);
    await reborn();
    await unpublish(volume);
    await assertCleared(volume.target);
  });
}

for (const [name, call] of Object.entries(ADOPTING)) {
  for (const when of WHEN) {
    test(`killed, and again ${when} it could ${name}: it goes on`, TIMEOUT, async () => {
      const volume = await wanted();
      await insist(() => publish(volume));
      await service.end("SIGKILL");
      arm(when, call);
      await assert.rejects(nextLife());
      await reborn();
      await insist(() => publish(volume));
      await writtenTo(volume);
      await unpublish(volume);
      await played.removeWorkload(volume.workload);
      await assertOver(volume);
    });
  }
}

for (const [name, call] of Object.entries(UNPUBLISHING)) {
  for (const when of WHEN) {
    test(`killed ${when} it could ${name}: unpublished in the end`, TIMEOUT, async () => {
      const volume = await wanted();
      await insist(() => publish(volume));
      await writtenTo(volume);
      arm(when, call);
      await assert.rejects(unpublish(volume));
      await reborn();
      await unpublish(volume);
      await played.removeWorkload(volume.workload);
      await assertOver(volume);
    });
  }
}

for (const [name, call] of Object.entries(TAKING_DOWN)) {
  for (const when of WHEN) {
    test(`killed ${when} it could ${name}: taken down in the end`, TIMEOUT, async () => {
      const volume = await wanted();
      await insist(() => publish(volume));
      await writtenTo(volume);
      await unpublish(volume);
      arm(when, call);
      await played.removeWorkload(volume.workload);
      await reborn();
      await assertOver(volume);
    });
  }
}

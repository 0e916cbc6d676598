import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BUSYBOX_IMAGE } from "../../tools/stack/busybox-image.ts";
import { staticVolume, workloadPod } from "../../tools/stack/driver.ts";
import {
  assertNothingLeft,
  makeBucket,
  removePods,
  shell,
  silenceS3,
  startTestCluster,
} from "./test-cluster.ts";
import type { TestCluster } from "./test-cluster.ts";

const BUCKET = "causes";
const TOLD_WITHIN_MS = 10_000;
const HEALED_WITHIN_MS = 150_000;
const toldMs: number[] = [];

let it: TestCluster;
before(async () => {
  it = await startTestCluster();
  await makeBucket(it.cluster.s3, BUCKET);
});
after(async () => {
  await it?.[Symbol.asyncDispose]();
});

test("wrong keys are told, and right ones heal it", async () => {
  const { accessKeyId, secretAccessKey } = it.cluster.s3;
  await it.cluster.apply(secretOf(accessKeyId, "not-the-key"));
  await start("wrong-key", BUCKET, { secret: "keys" });
  await told("wrong-key", /causes.*SignatureDoesNotMatch/);
  await it.cluster.apply(secretOf(accessKeyId, secretAccessKey));
  await healed("wrong-key");
});

test("a missing bucket is told, and it heals when somebody makes it", async () => {
  await start("no-bucket", "not-yet-there");
  await told("no-bucket", /not-yet-there.*does not exist|NoSuchBucket/);
  await makeBucket(it.cluster.s3, "not-yet-there");
  await healed("no-bucket");
});

test("a silent endpoint is told with its address, and it heals when it answers", async () => {
  {
    await using _silent = await silenceS3(it);
    await start("silent", BUCKET);
    const address = new URL(it.cluster.s3.endpoint).host;
    const words = new RegExp(address.replaceAll(".", "\\."));
    await told("silent", words);
  }
  await healed("silent");
});

test("a wrong option is told by its name; its volume heals when it is made anew", async () => {
  await start("bad-option", BUCKET, { mountOptions: ["part-size=many"] });
  assert.match(await told("bad-option", /part-size/), /many/);
  await removePods(it, "bad-option");
  const objects = ["pvc/bad-option", "pv/bad-option"];
  await it.cluster.kubectl(["delete", ...objects, "--wait", "--timeout=30s"]);
  await start("bad-option", BUCKET, { mountOptions: ["part-size=16777216"] });
  await healed("bad-option");
});

test("all of that is told within 10 s, but where Kubernetes itself took its time", () => {
  const [, ...others] = toldMs.toSorted((left, right) => right - left);
  assert.equal(others.length, 3);
  assert(Math.max(...others) < TOLD_WITHIN_MS, `told after ${toldMs.join(", ")} ms`);
});

test("afterwards nothing is left", async () => {
  await assertNothingLeft(it);
});

async function start(
  name: string,
  bucket: string,
  options: Parameters<typeof staticVolume>[2] = {},
): Promise<void> {
  await it.cluster.apply(...staticVolume(name, bucket, options));
  // A claim that Kubernetes sees before its volume is bound 15 s later: not the driver's time.
  await it.watch.untilBound(name);
  await it.cluster.apply(workloadPod(name, name, BUSYBOX_IMAGE));
}

/** The event that says why the pod, just made, does not start. */
async function told(name: string, words: RegExp): Promise<string> {
  const startedMs = performance.now();
  const event = await it.watch.untilTold(name, words);
  toldMs.push(performance.now() - startedMs);
  return event;
}

async function healed(name: string): Promise<void> {
  await it.watch.untilReady(name, HEALED_WITHIN_MS);
  const file = `/data/${name}`;
  assert.equal(await shell(it, name, `echo healed > ${file}; cat ${file}`), "healed\n");
  await removePods(it, name);
}

function secretOf(accessKeyId: string, secretAccessKey: string): object {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "keys", namespace: "default" },
    stringData: { access_key_id: accessKeyId, secret_access_key: secretAccessKey },
  };
}

import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import { readFile } from "node:fs/promises";
import { buildImage } from "./image.ts";
import { seconds, step, toolMain } from "./progress.ts";
import { programs } from "./programs.ts";
import { BUSYBOX_IMAGE } from "./stack/busybox-image.ts";
import { checkHost } from "./stack/check-host.ts";
import { startCluster } from "./stack/cluster.ts";
import type { Cluster } from "./stack/cluster.ts";
import { installDriver, staticVolume, volumeMountsOf, workloadPod } from "./stack/driver.ts";
import { allPids, killIfThere } from "./stack/processes.ts";
import { clientOf } from "./stack/s3-client.ts";
import { timelineOf } from "./stack/timeline.ts";

const BUCKET = "demo";
const KILL_EVERY_MS = 700;

/** Numbers the steps and says how long each took. */
class Story {
  #count = 0;

  async tell<T>(title: string, work: () => Promise<T>): Promise<T> {
    this.#count += 1;
    process.stdout.write(`\n${this.#count}. ${title}\n`);
    const startedMs = performance.now();
    const result = await work();
    process.stdout.write(`   (${seconds(performance.now() - startedMs)})\n`);
    return result;
  }
}

function say(text: string): void {
  process.stdout.write(`${text.trimEnd().replaceAll(/^/gm, "   ")}\n`);
}

/** Runs a line in the workload's shell, and shows both the line and what it printed. */
async function inPod(cluster: Cluster, pod: string, line: string): Promise<string> {
  const printed = await cluster.kubectl(["exec", pod, "--", "sh", "-ec", line]);
  say(`${pod} $ ${line}\n${printed}`);
  return printed;
}

/** A shell line that prints how long a command took. */
function timed(command: string): string {
  return `time sh -c '${command} 2>/dev/null' 2>&1 | grep real`;
}

function row(ms: number, text: string): void {
  say(`${String(ms).padStart(6)} ms  ${text}`);
}

async function show(cluster: Cluster, args: readonly string[]): Promise<void> {
  say(`$ kubectl ${args.join(" ")}\n${await cluster.kubectl(args)}`);
}

async function prepare(): Promise<void> {
  checkHost();
  process.stdout.write(
    "Preparing: the first time this builds Kubernetes from source, for 10 to 15 minutes.\n",
  );
  for (const name of ["kubernetes", "versitygw", "helm"] as const) await programs(name);
  await step("building the driver's image", () => buildImage());
}

async function publish(story: Story, cluster: Cluster): Promise<void> {
  const s3 = clientOf(cluster.s3);
  await story.tell(`A bucket "${BUCKET}" with an object, made with the S3 API`, async () => {
    await s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
    const Body = "Hello from S3.\n";
    await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: "letters/hello.txt", Body }));
    say("s3://demo/letters/hello.txt");
  });
  await story.tell("A PersistentVolume on it, a claim, and a pod that mounts it", async () => {
    const createdAtMs = Date.now();
    const volume = staticVolume("demo", BUCKET, { mountOptions: ["allow-delete"] });
    await cluster.apply(...volume, workloadPod("alice", "demo", BUSYBOX_IMAGE));
    await cluster.waitFor("pod/alice", "--for=condition=Ready");
    const readyMs = Date.now() - createdAtMs;
    const line = await timelineOf(cluster, "alice", createdAtMs);
    row(line.scheduled, "the scheduler has chosen the node");
    row(line.attached, "Mountpoint Pod created, attachment written");
    row(line.mounterRuns, "the kubelet has started the Mountpoint Pod");
    row(line.engineReady, "FUSE mounted, descriptors handed over, engine serves the bucket");
    row(line.bound, "bound into the workload's directory");
    row(readyMs, "the workload is Ready");
  });
}

async function use(story: Story, cluster: Cluster): Promise<void> {
  const s3 = clientOf(cluster.s3);
  await story.tell("The pod reads the object as a file, and writes one", async () => {
    await inPod(cluster, "alice", "ls -l /data/letters; cat /data/letters/hello.txt");
    await inPod(cluster, "alice", "echo 'Hello from a pod.' > /data/letters/answer.txt");
    const key = { Bucket: BUCKET, Key: "letters/answer.txt" };
    const answer = await s3.send(new GetObjectCommand(key));
    say(`S3 API: GET letters/answer.txt -> ${await answer.Body?.transformToString()}`);
  });
  await story.tell("100 MiB through the mount, and back", async () => {
    await inPod(cluster, "alice", timed("dd if=/dev/zero of=/data/big bs=1M count=100"));
    await inPod(cluster, "alice", timed("dd if=/data/big of=/dev/null bs=1M"));
    await inPod(cluster, "alice", "rm /data/big");
  });
  await story.tell("A second pod on the same volume shares the Mountpoint Pod", async () => {
    await cluster.apply(workloadPod("bob", "demo", BUSYBOX_IMAGE));
    await cluster.waitFor("pod/bob", "--for=condition=Ready");
    await inPod(cluster, "bob", "cat /data/letters/answer.txt");
    await show(cluster, ["get", "s3pa"]);
    await show(cluster, ["get", "pods", "--namespace", "mount-s3"]);
  });
}

/** The process that serves the bucket, wherever on this machine its container is. */
async function enginePid(): Promise<number | undefined> {
  const words = ["/usr/lib/s3csi/s3csi.cjs", "engine", BUCKET].join("\0");
  for (const pid of await allPids()) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (command.includes(words)) return pid;
  }
  return undefined;
}

async function survive(story: Story, cluster: Cluster): Promise<void> {
  await story.tell("The engine is killed again and again while the pod works", async () => {
    let kills = 0;
    const kill = async () => {
      const pid = await enginePid();
      if (pid === undefined) return;
      killIfThere(pid);
      kills += 1;
    };
    const killer = setInterval(() => void kill(), KILL_EVERY_MS);
    try {
      const make = "dd if=/dev/urandom of=/tmp/big bs=1M count=100 2>/dev/null";
      await inPod(cluster, "alice", `${make}; cp /tmp/big /data/big`);
      const sums = await inPod(cluster, "alice", "sha256sum /tmp/big /data/big");
      const [written, read] = sums.split("\n").map((line) => line.split(" ")[0]);
      if (written !== read) throw new Error("the bytes differ");
    } finally {
      clearInterval(killer);
    }
    const logs = [
      "logs",
      "--namespace",
      "mount-s3",
      "--selector",
      "s3.csi.scality.com/volume-name",
    ];
    const lines = (await cluster.kubectl([...logs, "--tail=-1"])).split("\n");
    const pauses = lines.flatMap((line) => /"pauseMs":(\d+)/.exec(line)?.[1] ?? []);
    say(`killed ${kills} times; the pod saw no error, and every byte is right`);
    say(`the longest pause: ${Math.max(...pauses.map(Number))} ms`);
    await inPod(cluster, "alice", "rm /data/big");
  });
}

async function takeDown(story: Story, cluster: Cluster): Promise<void> {
  await story.tell("Both pods go: unmounted, Mountpoint Pod and attachment gone", async () => {
    await cluster.kubectl(["delete", "pod", "alice", "bob", "--wait"]);
    const gone = ["--for=delete", "--all", "--timeout=30s"];
    await cluster.kubectl(["wait", "s3pa", ...gone]);
    await cluster.kubectl(["wait", "pod", "--namespace", "mount-s3", ...gone]);
    const left = volumeMountsOf(cluster).length;
    if (left > 0) throw new Error(`${left} mounts are left on the node`);
    const objects = await clientOf(cluster.s3).send(new ListObjectsV2Command({ Bucket: BUCKET }));
    const keys = objects.Contents?.map((object) => object.Key).join(", ");
    say(`mounts left on the node: ${left}\nobjects left in the bucket: ${keys}`);
  });
}

await toolMain(async () => {
  const startedMs = performance.now();
  await prepare();
  const story = new Story();
  {
    await using cluster = await story.tell("A local Kubernetes with an S3 server", async () => {
      const started = await startCluster();
      await show(started, ["get", "nodes"]);
      return started;
    });
    await story.tell("The driver, installed with its chart", async () => {
      await installDriver(cluster);
      await show(cluster, ["get", "pods", "--namespace", "kube-system"]);
    });
    await publish(story, cluster);
    await use(story, cluster);
    await survive(story, cluster);
    await takeDown(story, cluster);
  }
  const took = seconds(performance.now() - startedMs);
  process.stdout.write(
    `\nDone in ${took}. The cluster is gone, nothing is left on this machine.\n`,
  );
});

import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { crunRoot } from "./crun.ts";
import { debianRoot } from "./debian.ts";
import { ToolError, step, toolMain } from "./progress.ts";
import { programs } from "./programs.ts";
import { run } from "./run.ts";
import { checkHost } from "./stack/check-host.ts";
import { reapDead } from "./stack/instance.ts";
import { callSupervisor } from "./stack/supervisor-call.ts";
import type { ClusterFacts } from "./stack/supervisor-call.ts";
import { READY } from "./stack/supervisor.ts";

const LOG = join(import.meta.dirname, "../build/up.log");
const LOG_LINES_SHOWN = 40;

/** What is for people goes to stderr, what a shell can read to stdout: eval "$(make up)". */
const tell = (text: string) => process.stderr.write(`${text}\n`);

async function up(): Promise<void> {
  checkHost();
  using running = await callSupervisor();
  if (running !== undefined) {
    tell("the cluster is already up");
    return await show(running.facts);
  }
  await debianRoot(); // built here rather than by the supervisor: here the progress is seen
  await crunRoot();
  await programs("kubernetes");
  await programs("versitygw");
  await step("starting the cluster", startSupervisor);
  using started = await callSupervisor();
  if (started === undefined) throw new Error("the cluster is up, but its supervisor is silent");
  await show(started.facts);
}

/** It gets a session of its own, so that it outlives this process and its terminal. */
async function startSupervisor(): Promise<void> {
  await mkdir(dirname(LOG), { recursive: true });
  await using log = await open(LOG, "w");
  const script = join(import.meta.dirname, "stack/supervisor.ts");
  const supervisor = spawn(process.execPath, [script], {
    cwd: "/",
    detached: true,
    stdio: ["ignore", "pipe", log.fd],
  });
  const interrupt = () => supervisor.kill("SIGKILL"); // its cluster dies with it
  process.once("SIGINT", interrupt).once("SIGTERM", interrupt);
  try {
    if (await saysReady(supervisor)) return;
  } finally {
    process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
    supervisor.stdout?.destroy();
    supervisor.unref();
  }
  await reapDead();
  const lines = (await readFile(LOG, "utf8")).trimEnd().split("\n").slice(-LOG_LINES_SHOWN);
  throw new ToolError(`the cluster did not start; the end of ${LOG}:\n${lines.join("\n")}`);
}

async function saysReady(supervisor: ChildProcess): Promise<boolean> {
  if (supervisor.stdout === null) return false;
  const ended = once(supervisor, "exit");
  for await (const line of createInterface({ input: supervisor.stdout })) {
    if (line === READY) return true;
  }
  await ended;
  return false;
}

async function show({ kubeconfig, s3 }: ClusterFacts): Promise<void> {
  const bin = await programs("kubernetes");
  tell((await run(join(bin, "kubectl"), [`--kubeconfig=${kubeconfig}`, "get", "nodes"])).trimEnd());
  tell(`S3 server: ${s3.endpoint}, region ${s3.region}`);
  tell(`  access key ${s3.accessKeyId}, secret key ${s3.secretAccessKey}`);
  process.stdout.write(`export KUBECONFIG=${kubeconfig}\nexport PATH=${bin}:$PATH\n`);
}

await toolMain(up);

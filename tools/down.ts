import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { ToolError, step, toolMain } from "./progress.ts";
import { reapDead } from "./stack/instance.ts";
import { startTimeOf, waitUntilGone } from "./stack/processes.ts";
import { SUPERVISOR_SOCKET, callSupervisor } from "./stack/supervisor-call.ts";
import type { SupervisorCall } from "./stack/supervisor-call.ts";

const CLUSTER_DIR = dirname(SUPERVISOR_SOCKET);

async function down(): Promise<void> {
  using call = await callSupervisor();
  if (call !== undefined) return await step("stopping the cluster", () => stop(call));
  if (!existsSync(CLUSTER_DIR)) return tell("no cluster is up");
  await reapDead();
  if (existsSync(CLUSTER_DIR))
    throw new ToolError("a cluster runs, but `make up` did not start it");
  tell("cleared away what a killed cluster had left");
}

async function stop(call: SupervisorCall): Promise<void> {
  await call.end();
  if (!existsSync(CLUSTER_DIR)) return;
  // It failed at its end. The line closes a moment before the process counts as gone.
  const { pid } = call.facts;
  await waitUntilGone(async () => ((await startTimeOf(pid)) === undefined ? [] : [pid]));
  await reapDead();
}

const tell = (text: string): void => void process.stderr.write(`  ${text}\n`);

await toolMain(down);

import { once } from "node:events";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";
import { toolMain } from "../progress.ts";
import { startCluster } from "./cluster.ts";
import type { Cluster } from "./cluster.ts";
import { END, SUPERVISOR_SOCKET } from "./supervisor-call.ts";
import type { ClusterFacts } from "./supervisor-call.ts";

/** The word on stdout that tells `make up` to go: from here on the socket answers. */
export const READY = "ready";

/** Owns a cluster for as long as nobody asks for its end. */
async function supervise(): Promise<void> {
  await using cluster = await startCluster();
  const asked = Promise.withResolvers<void>();
  const facts = `${JSON.stringify(factsOf(cluster))}\n`;
  const server = createServer((caller) => answer(caller, facts, asked.resolve));
  server.listen(SUPERVISOR_SOCKET);
  await once(server, "listening");
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => asked.resolve());
  process.stdout.write(`${READY}\n`);
  await asked.promise;
}

function answer(caller: Socket, facts: string, end: () => void): void {
  caller.on("error", () => {}); // callers hang up when they like
  caller.write(facts);
  createInterface({ input: caller }).on("line", (line) => {
    if (line === END) end();
  });
}

function factsOf({ kubeconfig, s3 }: Cluster): ClusterFacts {
  const { endpoint, region, accessKeyId, secretAccessKey } = s3;
  const access = { endpoint, region, accessKeyId, secretAccessKey };
  return { pid: process.pid, kubeconfig, s3: access };
}

if (import.meta.main) {
  await toolMain(supervise);
  process.exit(); // callers who wait for the end hold the event loop; the exit is their answer
}

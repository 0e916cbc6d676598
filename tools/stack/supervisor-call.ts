import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { CLUSTER_NAME } from "./cluster.ts";
import { STATE_ROOT } from "./instance.ts";
import { closeOf } from "./lock.ts";
import type { S3Access } from "./s3-server.ts";

/** Where the supervisor of `make up` listens; gone together with the cluster. */
export const SUPERVISOR_SOCKET = join(STATE_ROOT, CLUSTER_NAME, "supervisor.sock");
/** The one word that a caller may say. */
export const END = "end";

/** What a person needs to use the cluster: the supervisor tells it to everyone who calls. */
export interface ClusterFacts {
  readonly pid: number;
  readonly kubeconfig: string;
  readonly s3: S3Access;
}

export interface SupervisorCall extends Disposable {
  readonly facts: ClusterFacts;
  /** Asks the supervisor to end its cluster; settles when its process lets go of the line. */
  end(): Promise<void>;
}

/** Calls the supervisor of this user's cluster; undefined when there is none. */
export async function callSupervisor(): Promise<SupervisorCall | undefined> {
  const socket = connect(SUPERVISOR_SOCKET);
  try {
    await once(socket, "connect");
  } catch {
    return undefined; // no socket, or nobody behind it
  }
  const closed = closeOf(socket);
  const facts = await firstLineOf(socket);
  if (facts === undefined) return undefined; // it was ending already
  return {
    facts: JSON.parse(facts) as ClusterFacts,
    async end() {
      socket.resume().write(`${END}\n`);
      await closed;
    },
    [Symbol.dispose]: () => socket.destroy(),
  };
}

async function firstLineOf(socket: NodeJS.ReadableStream): Promise<string | undefined> {
  for await (const line of createInterface({ input: socket })) return line;
  return undefined;
}

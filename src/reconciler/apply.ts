import assert from "node:assert/strict";
import type { Cluster } from "./cluster.ts";
import type { Action } from "./action.ts";
import type { Observed } from "./observed.ts";

/** Thin on purpose: no branch here that decide() could have taken. Returns when to look again. */
export async function apply(
  actions: readonly Action[],
  { name, key, attributes }: Observed,
  cluster: Cluster,
  signal: AbortSignal,
): Promise<number | undefined> {
  let lookAgainMs: number | undefined;
  for (const action of actions) {
    switch (action.do) {
      case "create-pod":
        assert(key !== undefined, "decided with a key");
        await cluster.createPod(action.pod, { attachment: name, key, attributes }, signal);
        break;
      case "mark-pod":
        await cluster.markPod(action.pod, signal);
        break;
      case "delete-pod":
        await cluster.deletePod(action.pod, signal);
        break;
      case "create-attachment":
        assert(key !== undefined, "decided with a key");
        await cluster.createAttachment(name, key, action.lists, signal);
        break;
      case "update-attachment":
        await cluster.updateAttachment(action.attachment, action.lists, signal);
        break;
      case "write-status":
        await cluster.writeStatus(action, signal);
        break;
      case "delete-attachment":
        await cluster.deleteAttachment(action.attachment, signal);
        break;
      case "hold-back":
        break;
      case "look-again":
        lookAgainMs = Math.min(action.afterMs, lookAgainMs ?? Infinity);
        break;
      default:
        action satisfies never; // a new action that nobody applies does not compile
    }
  }
  return lookAgainMs;
}

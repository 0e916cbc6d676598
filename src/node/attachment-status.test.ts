import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { createLineLog } from "../base/line-log.ts";
import { AttachmentStatusWriter } from "./attachment-status.ts";
import type { AttachmentStatusOptions } from "./attachment-status.ts";
import type { MountNews } from "./kept-mount.ts";

const log = createLineLog("error", {});

function newsOf(recoveries: number, cause = "SIGKILL"): MountNews {
  const state = { generation: 0, phase: "Running", needsUnmount: false, leaving: false };
  const pod = { name: "mp-1", uid: "u", mountId: "mp-1", attachment: "s3pa-1", ...state };
  const source = { dir: "/", device: "0:1" };
  return { what: "recovered", mountId: "mp-1", source, pod, cause, pauseMs: 1, recoveries };
}

const survived = (n: number) => ({
  name: "s3pa-1",
  status: {
    mountpointPods: {
      "mp-1": { engineVersion: "1.2.3", restartsSurvived: n, lastError: "SIGKILL" },
    },
  },
});

test("the first word is written at once, of many more only the last", async () => {
  const written: unknown[] = [];
  const patchStatus = async (_resource: unknown, place: object, patch: object) => {
    written.push({ ...place, ...patch });
    return {};
  };
  const stop = new AbortController();
  const writer = new AttachmentStatusWriter({
    client: { patchStatus } as unknown as AttachmentStatusOptions["client"],
    engineVersion: "1.2.3",
    signal: stop.signal,
    log,
    atMostEveryMs: 50,
  });
  for (let n = 1; n <= 20; n += 1) writer.news(newsOf(n));
  await sleep(120);
  stop.abort();
  assert.deepEqual(written, [survived(1), survived(20)]);
});

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Failure } from "../../src/base/failure.ts";
import { createLog } from "../../src/base/pino-log.ts";
import { EventWriter } from "../../src/kube/event-writer.ts";
import { loadKubeAccess } from "../../src/kube/kube-access.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { EVENTS } from "../../src/kube/resource.ts";
import type { KubeEvent } from "../../src/kube/resource.ts";
import { startApiServer } from "../../tools/stack/api-server.ts";
import type { ControlPlane } from "../../tools/stack/api-server.ts";

let plane: ControlPlane;
let client: KubeClient;

before(
  async () => {
    plane = await startApiServer();
    client = new KubeClient(await loadKubeAccess(plane.kubeconfig));
  },
  { timeout: 60_000 },
);
after(async () => {
  client[Symbol.dispose]();
  await plane[Symbol.asyncDispose]();
});

/** The note as the API server has stored it; a refusal of the event fails the test. */
async function storedNote(name: string, note: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(10_000);
  let stored: KubeEvent | undefined;
  const create = async (_: unknown, event: KubeEvent) =>
    (stored = await client.create(EVENTS, event, signal));
  const component = { controller: "s3.csi.scality.com", instance: "test" };
  const recording = { create } as unknown as Pick<KubeClient, "create">;
  const events = new EventWriter(recording, component, createLog("debug", { role: "test" }));
  const claim = { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace: "default" };
  const text = { type: "Warning", reason: "Test", action: "Test", note } as const;
  assert(await events.tryWrite({ ...claim, name, uid: "u-1" }, text, signal), "not written");
  return stored?.note;
}

// prettier-ignore
const cases: [what: string, name: string, note: string, want: string][] = [
  ["a note of 1,024 bytes",             "data", "ä".repeat(512), "ä".repeat(512)],
  ["a note of 600 two-byte letters",    "data", "ä".repeat(600), `${"ä".repeat(510)}…`],
  ["a note of 300 four-byte characters", "data", `n${"😀".repeat(300)}`, `n${"😀".repeat(255)}…`],
  ["the longest name",                  "a".repeat(253), "n", "n"],
  ["a name whose cut ends in a hyphen", `${"a".repeat(199)}-bbbb`, "n", "n"],
  ["a name whose cut ends in a dot",    `${"a".repeat(199)}.bbbb`, "n", "n"],
];
for (const [what, name, note, want] of cases) {
  test(`the API server accepts an event with ${what}`, async () => {
    assert.equal(await storedNote(name, note), want);
  });
}

test("the API server refuses a longer note: the limit is its own", async () => {
  const event: KubeEvent = {
    metadata: { name: "too.long", namespace: "default" },
    eventTime: new Date().toISOString().replace("Z", "000Z"),
    reportingController: "s3.csi.scality.com",
    reportingInstance: "test",
    type: "Normal",
    reason: "Test",
    action: "Test",
    note: "n".repeat(1_025),
    regarding: { kind: "PersistentVolumeClaim", namespace: "default", name: "data" },
  };
  await assert.rejects(
    client.create(EVENTS, event, AbortSignal.timeout(10_000)),
    (error) => error instanceof Failure && error.kind === "invalid" && /1024/.test(error.message),
  );
});

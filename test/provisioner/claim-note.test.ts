import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { after, before, test } from "node:test";
import { Failure } from "../../src/base/failure.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { PVCS } from "../../src/kube/resource.ts";
import type { KubeObject, PersistentVolumeClaim, Resource } from "../../src/kube/resource.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import type { Saying } from "./faulty-line.ts";
import { secretOf } from "./objects.ts";
import type { Users } from "./objects.ts";
import { startWorld } from "./world.ts";
import type { ProvisioningWorld } from "./world.ts";

const TIMEOUT = { timeout: 60_000 };
const NOTE = "s3.csi.scality.com/provisioning";
const POLICY_WITHIN_MS = 20_000;
const ROLE_BINDINGS: Resource<KubeObject> = {
  prefix: "/apis/rbac.authorization.k8s.io/v1",
  plural: "rolebindings",
};
/** Buckets of this prefix are made, and never finished: their claims keep the note. */
const UNFINISHED: Saying = { status: 403, code: "InvalidAccessKeyId" };
const DENIED = {
  kind: "denied",
  message: /annotation s3.csi.scality.com\/provisioning is written/,
};

let world: ProvisioningWorld;
let users: Users;
let tenant: KubeClient;
before(async () => {
  world = await startWorld(1, ({ method, path }) =>
    method === "PUT" && /^\/half-.*\?tagging/.test(path) ? UNFINISHED : undefined,
  );
  ({ users } = world);
  tenant = new KubeClient(world.chart.accessOf("tenant"));
  const binding = {
    metadata: { name: "tenant", namespace: "default" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "edit" },
    subjects: [{ kind: "ServiceAccount", name: "tenant", namespace: "kube-system" }],
  };
  await world.chart.admin.create(ROLE_BINDINGS, binding, world.signal);
  await users.secret("kube-system", "exists", secretOf(world.s3));
  await policyInForce();
}, TIMEOUT);
after(async () => {
  tenant?.[Symbol.dispose]();
  await world?.[Symbol.asyncDispose]();
});

/** No object tells when the API server begins to enforce a policy: claims are tried until then. */
async function policyInForce(): Promise<void> {
  const untilMs = performance.now() + POLICY_WITHIN_MS;
  for (let attempt = 0; performance.now() < untilMs; attempt += 1) {
    const error = await tenant
      .create(PVCS, claimOf(`probe-${attempt}`, { [NOTE]: "{}" }), world.signal)
      .then(() => undefined)
      .catch((reason: unknown) => reason);
    if (error instanceof Failure && DENIED.message.test(error.message)) return;
    if (error !== undefined && !(error instanceof Failure)) throw error;
    await delay(100);
  }
  assert.fail("a tenant may write the driver's note on a claim");
}

function claimOf(name: string, annotations: Record<string, string>): PersistentVolumeClaim {
  return {
    metadata: { name, namespace: "default", annotations, finalizers: [NOTE] },
    spec: {
      accessModes: ["ReadWriteMany"],
      storageClassName: "",
      resources: { requests: { storage: "1Gi" } },
    },
  };
}

function noteFor(uid: string, name: string): Record<string, string> {
  const volume = `csi-s3-${volumeUuidOf(`pvc-${uid}`)}`;
  return { [NOTE]: JSON.stringify({ volume, secret: { namespace: "kube-system", name } }) };
}

const place = (name: string) => ({ namespace: "default", name });
const edit = (annotations: Record<string, string | null>) =>
  tenant.patch(PVCS, place("begun"), { metadata: { annotations } }, world.signal);

for (const secret of ["exists", "never-was"]) {
  test(
    `a tenant learns nothing about kube-system/${secret} by a forged note`,
    TIMEOUT,
    async () => {
      const name = `thief-of-${secret}`;
      const { metadata } = await tenant.create(PVCS, claimOf(name, {}), world.signal);
      const annotations = noteFor(metadata?.uid ?? "", secret);
      const patch = { metadata: { annotations } };
      await assert.rejects(tenant.patch(PVCS, place(name), patch, world.signal), DENIED);
      const made = tenant.create(PVCS, claimOf(`${name}-2`, annotations), world.signal);
      await assert.rejects(made, DENIED);
      await tenant.delete(PVCS, place(name), {}, world.signal);
      await users.claimGone(name);
      await users.event(name, "BucketMayBeLeft", /the claim has lost its note/);
    },
  );
}

test(
  "a tenant may edit a claim that the driver has a note on, and remove it",
  TIMEOUT,
  async () => {
    await users.storageClass("half", { parameters: { bucketNamePrefix: "half-" } });
    const uid = await users.claim("begun", "half");
    await users.event("begun", "ProvisioningFailed", /BucketTagging half-.*InvalidAccessKeyId/);
    await edit({ team: "red" });
    await assert.rejects(edit(noteFor(uid, "exists")), DENIED);
    const { metadata } = await edit({ [NOTE]: null });
    assert.equal(metadata?.annotations?.["team"], "red");
    await users.deleteClaim("begun");
    await users.claimGone("begun");
  },
);

test("an administrator, who may read every Secret, may restore a claim with it", async () => {
  const { admin } = world.chart;
  const { metadata } = await admin.create(
    PVCS,
    claimOf("restored", { [NOTE]: "{}" }),
    world.signal,
  );
  assert.equal(metadata?.annotations?.[NOTE], "{}");
  await users.deleteClaim("restored");
  await users.claimGone("restored");
});

import assert from "node:assert/strict";
import { test } from "node:test";
import type { V1Deployment, V1RoleBinding } from "@kubernetes/client-node";
import { render } from "./render.ts";
import type { Rendered } from "./render.ts";

function podOf(objects: readonly Rendered[], wanted: "Deployment" | "DaemonSet") {
  const found = objects.find(({ kind }) => kind === wanted) as unknown as V1Deployment;
  return found.spec?.template.spec;
}

function privilegedIn(objects: readonly Rendered[]): V1RoleBinding[] {
  const bindings = objects.filter(({ kind }) => kind.endsWith("RoleBinding"));
  return (bindings as unknown as V1RoleBinding[]).filter(
    ({ roleRef }) => roleRef.name === "system:openshift:scc:privileged",
  );
}

test("on OpenShift the node service may be privileged, and the platform chooses the controller's user", async () => {
  const objects = await render({ isOpenShift: true });
  const [binding, ...more] = privilegedIn(objects);
  assert.deepEqual(more, []);
  assert.equal(binding?.kind, "RoleBinding");
  assert.equal(binding.metadata?.namespace, "kube-system");
  const { serviceAccountName: name } = podOf(objects, "DaemonSet") ?? {};
  const subjects = [{ kind: "ServiceAccount", name, namespace: "kube-system" }];
  assert.deepEqual(structuredClone(binding.subjects), subjects);
  const { runAsNonRoot, ...pinned } = podOf(objects, "Deployment")?.securityContext ?? {};
  assert.equal(runAsNonRoot, true);
  assert.deepEqual(structuredClone(pinned), { seccompProfile: { type: "RuntimeDefault" } });
});

test("elsewhere no such role is bound, and the controller's user is pinned", async () => {
  const objects = await render({});
  assert.deepEqual(privilegedIn(objects), []);
  const user = podOf(objects, "Deployment")?.securityContext;
  assert.equal(user?.runAsUser, 1000);
  assert.equal(user.fsGroup, 1000);
});

test("the node service has the SELinux type of privileged containers, or that of the values", async () => {
  for (const [values, type] of [
    [{}, "spc_t"],
    [{ "node.seLinuxOptions.type": "super_t" }, "super_t"],
    [{ "node.seLinuxOptions": null }, undefined],
  ] as const) {
    const [container] = podOf(await render(values), "DaemonSet")?.containers ?? [];
    assert.equal(container?.securityContext?.seLinuxOptions?.type, type);
  }
});

test("the node service is never put into a user namespace", async () => {
  assert.equal(podOf(await render({}), "DaemonSet")?.hostUsers, true);
});

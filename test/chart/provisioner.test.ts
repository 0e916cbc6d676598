import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  V1CSIDriver,
  V1ClusterRole,
  V1ClusterRoleBinding,
  V1Deployment,
  V1PolicyRule,
} from "@kubernetes/client-node";
import { containersIn, render } from "./render.ts";
import type { Rendered } from "./render.ts";

const ACCOUNT = "s3-csi-driver-controller-sa";

/** What the controller's account may, as `namespace resource verb`; `*` is the whole cluster. */
function rightsIn(objects: readonly Rendered[]): string[] {
  return objects.flatMap((object) => {
    if (!/^(Cluster)?RoleBinding$/.test(object.kind)) return [];
    const { roleRef, subjects } = object as unknown as V1ClusterRoleBinding;
    if (!subjects?.some(({ name }) => name === ACCOUNT)) return [];
    const { namespace } = object.metadata;
    const role = objects.find(
      ({ kind, metadata }) =>
        kind === roleRef.kind && metadata.name === roleRef.name && metadata.namespace === namespace,
    );
    const { rules = [] } = role as unknown as V1ClusterRole;
    return rules.flatMap((rule) => verbsOf(rule).map((right) => `${namespace ?? "*"} ${right}`));
  });
}

function verbsOf({ apiGroups = [], resources = [], verbs }: V1PolicyRule): string[] {
  const names = resources.map((one) => (apiGroups[0] === "" ? one : `${one}.${apiGroups[0]}`));
  return names.flatMap((name) => verbs.map((verb) => `${name} ${verb}`));
}

/** The rules for Leases in the namespace of the release, as `names verbs`; no name is all of them. */
async function leaseRulesWith(mode: string): Promise<string[]> {
  const objects = await render({ [MODE]: mode });
  const rules = objects
    .filter(({ kind }) => /^(Cluster)?Role$/.test(kind))
    .flatMap((object) => (object as unknown as V1ClusterRole).rules ?? [])
    .filter(({ resources }) => resources?.includes("leases"));
  return rules.map(({ resourceNames = [], verbs }) => `${resourceNames.join()} ${verbs.join()}`);
}

const MODE = "controller.provisioner.mode";
const NAMESPACES = "controller.provisioner.secretNamespaces";
// prettier-ignore
const secrets: [name: string, values: object, rights: string[]][] = [
  ["by default",                       {},                                             ["* secrets get"]],
  ["of some namespaces",               { [NAMESPACES]: ["red", "blue"] },              ["red secrets get", "blue secrets get"]],
  ["without a provisioner",            { [MODE]: "none" },                             []],
  ["with provision=false",             { "controller.provision": false },              []],
  ["without one, of some namespaces",  { [MODE]: "none", [NAMESPACES]: ["red"] },      []],
  ["with the sidecar",                 { [MODE]: "sidecar" },                          ["* secrets get"]],
  ["with the sidecar, of one",         { [MODE]: "sidecar", [NAMESPACES]: ["red"] },   ["red secrets get"]],
  ["with it and provision=false",      { [MODE]: "sidecar", "controller.provision": false }, ["* secrets get"]],
];
for (const [name, values, want] of secrets) {
  test(`Secrets that the controller may read ${name}: ${want.join() || "none"}`, async () => {
    const rights = rightsIn(await render(values));
    assert.deepEqual(
      rights.filter((right) => right.includes(" secrets ")),
      want,
    );
  });
}

const BUILTIN = [
  "* storageclasses.storage.k8s.io get",
  "* storageclasses.storage.k8s.io list",
  "* storageclasses.storage.k8s.io watch",
  "* persistentvolumes create",
  "* persistentvolumes patch",
  "* persistentvolumes delete",
  "* persistentvolumeclaims patch",
  "* secrets get",
];
const SIDECAR = [
  ...BUILTIN,
  "* persistentvolumes update",
  "* persistentvolumeclaims update",
  "* events create",
  "* events update",
  "* events patch",
];
const CSI_NODES = ["get", "list", "watch"].map((verb) => `* csinodes.storage.k8s.io ${verb}`);
// prettier-ignore
const beyond: [name: string, values: object, rights: string[]][] = [
  ["itself",                    {},                                                           BUILTIN],
  ["the sidecar",               { [MODE]: "sidecar" },                                        SIDECAR],
  ["the sidecar, with places",  { [MODE]: "sidecar", "node.topologyLabels": ["zone"] },       [...SIDECAR, ...CSI_NODES]],
];
for (const [name, values, want] of beyond) {
  test(`volumes made by ${name} cost these rights and no others`, async () => {
    const least = new Set(rightsIn(await render({ ...values, [MODE]: "none" })));
    const more = rightsIn(await render(values)).filter((right) => !least.has(right));
    assert.deepEqual(more.toSorted(), want.toSorted());
    const needed = ["pods", "persistentvolumes", "persistentvolumeclaims", "nodes"];
    for (const one of needed) assert(least.has(`* ${one} watch`), one);
  });
}

for (const [values, provisions] of [
  [{}, true],
  [{ "controller.provision": false }, false],
  [{ [MODE]: "none" }, false],
] as const) {
  test(`${JSON.stringify(values)}: one container, --provision=${provisions}`, async () => {
    const [controller, ...others] = containersIn(await render(values));
    assert.deepEqual(others, []);
    assert(controller?.args?.includes(`--provision=${provisions}`));
  });
}

test("the sidecar meets the controller on its socket, as its user, and alone provisions", async () => {
  const image = { repository: "registry.example.com/csi-provisioner", tag: "v9" };
  const objects = await render({ [MODE]: "sidecar", "sidecars.csiProvisioner.image": image });
  const [controller, sidecar] = containersIn(objects);
  const flags = controller?.args ?? [];
  assert(flags.includes("--provision=false"));
  assert.equal(sidecar?.image, "registry.example.com/csi-provisioner:v9");
  const endpoint = flags.find((flag) => flag.startsWith("--endpoint=")) ?? "";
  const path = endpoint.replace("--endpoint=unix://", "");
  assert(sidecar.args?.includes(`--csi-address=${path}`));
  const mount = controller?.volumeMounts?.find(({ mountPath }) => path.startsWith(mountPath));
  assert.deepEqual(sidecar.volumeMounts, [mount]);
  assert.equal(sidecar.securityContext?.runAsUser, undefined, "the socket is the pod's user's");
});

test("the controller reads and writes the Leases of its own leader elections alone", async () => {
  const own = [" create", "s3csi-controller get,list,watch,update,delete"];
  assert.deepEqual(await leaseRulesWith("builtin"), own);
  // External-provisioner names its Lease after the driver, with hyphens for all other characters.
  const sidecar = "s3-csi-scality-com get,update";
  assert.deepEqual(await leaseRulesWith("sidecar"), [...own, sidecar]);
});

test("a mode that does not exist is refused", async () => {
  await assert.rejects(render({ [MODE]: "both" }), /must be one of 'builtin', 'sidecar', 'none'/);
});

test("pods carry the labels that runbooks for the reference driver select by", async () => {
  const objects = await render({});
  const labels = ["Deployment", "DaemonSet"].map((wanted) => {
    const found = objects.find(({ kind }) => kind === wanted) as unknown as V1Deployment;
    return found.spec?.template.metadata?.labels?.["app"];
  });
  assert.deepEqual(labels, ["s3-csi-controller", "s3-csi-node"]);
});

test("whether kubelets repeat publishes is the controller's to say, or the administrator's", async () => {
  for (const [values, inChart, byController] of [
    [{}, undefined, true],
    [{ "node.requiresRepublish": true }, true, false],
    [{ "node.requiresRepublish": false }, false, false],
  ] as const) {
    const objects = await render(values);
    const find = (wanted: string) => objects.find(({ kind }) => kind === wanted) as unknown;
    assert.equal((find("CSIDriver") as V1CSIDriver).spec.requiresRepublish, inChart);
    const [container] = (find("Deployment") as V1Deployment).spec?.template.spec?.containers ?? [];
    assert(
      container?.args?.includes(`--republish=${byController}`),
      `--republish: ${String(container?.args)}`,
    );
    const rights = objects.filter(({ kind }) => kind === "ClusterRole");
    assert.equal(JSON.stringify(rights).includes('"csidrivers"'), byController);
  }
  await assert.rejects(
    render({ "node.requiresRepublish": "no" }),
    /requiresRepublish.*'auto', true, false/s,
  );
});

for (const [mode, want] of [
  ["builtin", true],
  ["sidecar", false],
  ["none", false],
] as const) {
  test(`claims are guarded against forged notes with ${mode}: ${want}`, async () => {
    const objects = await render({ [MODE]: mode });
    const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    const isGuarded = names.some((name) => /^ValidatingAdmissionPolicy .*-claim-note$/.test(name));
    assert.equal(isGuarded, want);
  });
}

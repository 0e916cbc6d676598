import assert from "node:assert/strict";
import { test } from "node:test";
import { driverParameters, secretRefsOf } from "./secret-refs.ts";
import { CLAIM } from "./test-objects.ts";

const claim = { ...CLAIM, annotations: { "team.io/key": "special" } };
const parametersFor = (use: string, name?: string, namespace?: string) => ({
  ...(name === undefined ? {} : { [`csi.storage.k8s.io/${use}-secret-name`]: name }),
  ...(namespace === undefined ? {} : { [`csi.storage.k8s.io/${use}-secret-namespace`]: namespace }),
});

// prettier-ignore
const templates: [use: "provisioner" | "node-publish", name: string, namespace: string, want: string][] = [
  ["provisioner",  "keys",                                "kube-system",        "kube-system/keys"],
  ["provisioner",  "${pvc.name}-keys",                    "${pvc.namespace}",   "team/data-keys"],
  ["provisioner",  "${pv.name}",                          "${pvc.namespace}",   "team/pvc-u-1"],
  ["provisioner",  "${pvc.namespace}.${pvc.name}",        "${pv.name}",         "pvc-u-1/team.data"],
  ["node-publish", "${pv.name}",                          "${pvc.namespace}",   "team/pvc-u-1"],
  ["node-publish", "${pvc.name}",                         "${pvc.namespace}",   "team/data"],
  ["node-publish", "${pvc.annotations['team.io/key']}",   "tenants",            "tenants/special"],
  ["node-publish", "k-${pvc.annotations['team.io/key']}-${pvc.name}", "tenants", "tenants/k-special-data"],
];
for (const [use, name, namespace, want] of templates) {
  test(`${use}: ${namespace}/${name} is ${want}`, () => {
    const { provisioner, nodePublish } = secretRefsOf(parametersFor(use, name, namespace), claim);
    const ref = use === "provisioner" ? provisioner : nodePublish;
    assert.equal(`${ref?.namespace}/${ref?.name}`, want);
    assert.equal(use === "provisioner" ? nodePublish : provisioner, undefined);
  });
}

// prettier-ignore
const wrong: [name: string, parameters: Record<string, string>, message: RegExp][] = [
  ["half a pair",              parametersFor("provisioner", "keys"),                           /provisioner-secret-name is "keys": csi\.storage\.k8s\.io\/provisioner-secret-namespace is missing: both or none/],
  ["the other half",           parametersFor("node-publish", undefined, "ns"),                 /node-publish-secret-namespace is "ns": .*node-publish-secret-name is missing/],
  ["an unknown template",      parametersFor("provisioner", "${pvc.uid}", "ns"),               /\$\{pvc\.uid\} has no value; use \$\{pv\.name\}, \$\{pvc\.namespace\}, \$\{pvc\.name\}/],
  ["a template that every object inherits", parametersFor("provisioner", "keys-${constructor}", "ns"), /\$\{constructor\} has no value; use \$\{pv\.name\}/],
  ["an inherited template as namespace", parametersFor("node-publish", "keys", "${toString}"), /\$\{toString\} has no value; use \$\{pv\.name\}/],
  ["an annotation that every object inherits", parametersFor("node-publish", "${pvc.annotations['constructor']}", "ns"), /annotations\['constructor'\]\} has no value/],
  ["a claim's name as namespace", parametersFor("provisioner", "keys", "${pvc.name}"),         /\$\{pvc\.name\} has no value; use \$\{pv\.name\}, \$\{pvc\.namespace\}$/],
  ["an annotation for the provisioner", parametersFor("provisioner", "${pvc.annotations['team.io/key']}", "ns"), /has no value/],
  ["an annotation it lacks",   parametersFor("node-publish", "${pvc.annotations['x']}", "ns"), /annotations\['x'\]\} has no value; .*that the claim has/],
  ["an illegal name",          parametersFor("node-publish", "Keys_${pvc.name}", "ns"),        /"Keys_data" is not a legal name/],
  ["a path",                   parametersFor("provisioner", "a/../b", "ns"),                   /not a legal name/],
  ["an empty name",            parametersFor("provisioner", "", "ns"),                         /"" is not a legal name/],
];
for (const [name, parameters, message] of wrong) {
  test(`${name} is refused`, () => {
    assert.throws(() => secretRefsOf(parameters, claim), { kind: "invalid", message });
  });
}

test("the driver gets what is the driver's; an unknown key of Kubernetes is refused", () => {
  const secrets = parametersFor("provisioner", "a", "b");
  const given = { ...secrets, region: "r", "csi.storage.k8s.io/fstype": "x", foo: "bar" };
  assert.deepEqual(driverParameters(given), { region: "r", foo: "bar" });
  const staging = { "csi.storage.k8s.io/node-stage-secret-name": "x" };
  assert.throws(() => driverParameters(staging), {
    message: /node-stage-secret-name is "x": not known/,
  });
});

import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "node:test";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { installTimeOf } from "../../src/provisioner/install-time.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { CHART, RELEASE_NAMESPACE, installChart } from "../reconciler/control-plane.ts";
import { ControllerProcess } from "./controller-process.ts";
import { Users, environmentOf, log } from "./objects.ts";

const OLDER = /type is "fast": not known; .*; ignored, since StorageClass before is older/;
const MISTYPED = { create: true, name: "chart", parameters: { onDelte: "retain" } };

test("what is mistyped is ignored in classes from before the install alone", async (t) => {
  await using owned = new AsyncDisposableStack();
  const chart = owned.use(await installChart());
  const s3 = owned.use(await startS3Server());
  const stop = new AbortController();
  owned.defer(() => stop.abort());
  const signal = AbortSignal.any([stop.signal, t.signal]);
  const users = new Users(chart.admin, s3, signal);
  await users.start();
  await chart.helm("uninstall", "s3csi");
  const parameters = { type: "fast" };
  await users.storageClass("before", { parameters });
  await delay(1_100); // the API server dates objects by the second
  const values = ["--set-json", `storageClass=${JSON.stringify(MISTYPED)}`];
  await chart.helm("install", "s3csi", CHART, ...values);
  await users.storageClass("after", { parameters });
  await delay(1_100); // as long as a controller takes to come up and lead
  const env = { ...environmentOf(s3), POD_NAMESPACE: RELEASE_NAMESPACE };
  const { kubeconfig } = chart;
  owned.use(new ControllerProcess({ kubeconfig, env, name: "first" }));
  for (const name of ["before", "after", "chart"]) await users.claim(name, name);
  await users.bound("before");
  await users.event("before", "ParameterIgnored", OLDER);
  await users.event("after", "ProvisioningFailed", /type is "fast": not known/);
  await users.event("chart", "ProvisioningFailed", /onDelte is "retain": not known/);
  await users.removed("before");

  using controller = new KubeClient(chart.accessOf("s3-csi-driver-controller-sa"));
  const of = { client: controller, namespace: RELEASE_NAMESPACE, log };
  assert((await installTimeOf(of, signal)) <= Date.now(), "the controller may read it");
  const elsewhere = { ...of, namespace: "default" };
  assert.equal(
    await installTimeOf(elsewhere, signal),
    NaN,
    "no class is older than an unknown time",
  );
});

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Workload } from "./facts.ts";
import { World } from "./world.ts";

const workload = (uid: string): Workload => ({
  uid,
  namespace: "ns",
  name: uid,
  nodeName: "n1",
  ended: true,
  terminating: false,
  fsGroup: "",
  serviceAccountName: "",
  claims: ["c"],
  createdMs: 0,
  gated: false,
  hadGate: false,
});

test("who has ended is over, however many there are", () => {
  const world = new World(() => {});
  for (let i = 0; i < 10_100; i += 1) world.workloadChanged(workload(`w-${i}`), undefined);
  for (const uid of ["w-0", "w-10099"]) assert.equal(world.isOver(uid), true, uid);
  assert.equal(world.isOver("w-another"), undefined);
  const alive = { ...workload("w-alive"), ended: false };
  world.workloadChanged(alive, undefined);
  assert.equal(world.isOver("w-alive"), false);
});

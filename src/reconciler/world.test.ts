import assert from "node:assert/strict";
import { test } from "node:test";
import { workloadOf } from "./facts.ts";
import { World } from "./world.ts";

const volumes = [{ name: "v", persistentVolumeClaim: { claimName: "c" } }];
const spec = { nodeName: "n1", volumes, containers: [] };
const workload = (uid: string, phase: string) =>
  workloadOf({ metadata: { uid, name: uid, namespace: "ns" }, spec, status: { phase } });

test("who has ended is over, however many there are", () => {
  const world = new World(() => {});
  for (let i = 0; i < 10_100; i += 1) {
    world.workloadChanged(workload(`w-${i}`, "Succeeded"), undefined);
  }
  for (const uid of ["w-0", "w-10099"]) assert.equal(world.isOver(uid), true, uid);
  assert.equal(world.isOver("w-another"), undefined);
  world.workloadChanged(workload("w-alive", "Running"), undefined);
  assert.equal(world.isOver("w-alive"), false);
});

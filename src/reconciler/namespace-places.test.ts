import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { Scene } from "./test-limit-scene.ts";

const young = (name: string) => ({ name, namespace: "team-a", second: 5 });
const old = (name: string) => ({ name, namespace: "team-a", second: 1 });

test("a Mountpoint Pod that is created for one workload gives no other workload a turn", () => {
  const scene = new Scene(2);
  const [b = ""] = scene.arriveWith(["b"], { ...old("w1"), second: 1 });
  const [a = ""] = scene.arriveWith(["a"], { ...old("w2"), second: 2 });
  const [, c = ""] = scene.arriveWith(["b", "c"], { ...old("w3"), second: 3 });
  scene.arriveWith(["a", "b"], { ...old("w4"), second: 4 });
  assert.deepEqual(scene.admitted(b), ["w-w1", "w-w4"]);
  scene.begin(b, "w1", "w4");
  assert.deepEqual(scene.open(a, c), [a], "w3 needs a third place");
});

test("places stay reserved for a workload between the creation of its pod and its listing", () => {
  const scene = new Scene(2);
  const [b = "", c = ""] = scene.arriveWith(["b", "c"], young("w1"));
  scene.begin(b, "w1");
  scene.put(scene.podOf(b, { workloadUid: "w-w1" }));
  const [a = ""] = scene.arriveWith(["a"], old("w2"));
  assert.deepEqual(scene.open(a, c), [c]);
});

test("places stay reserved for a workload that is about to join a Mountpoint Pod", () => {
  const scene = new Scene(2);
  const a = scene.arrive("a", "team-a", 1);
  scene.serve(a, "a");
  const [, b = ""] = scene.arriveWith(["a", "b"], young("w2"));
  scene.begin(a, "w2");
  const [c = ""] = scene.arriveWith(["c"], old("w3"));
  assert.deepEqual(scene.open(b, c), [b]);
  scene.limit.settle(a, new Failure("stale", "changed meanwhile"));
  assert.deepEqual(scene.open(b, c), [b], "the workload is listed by the next attempt");
});

test("a successor that is being created takes no second place", () => {
  const scene = new Scene(2);
  const [a, b] = [scene.arrive("a", "team-a", 1), scene.arrive("b", "team-a", 2)];
  scene.serve(a, "a");
  scene.begin(a, "a");
  assert.deepEqual([scene.taken(b), scene.open(b)], [2, [b]]);
});

test("a mount that a write lists keeps its place although its pod vanishes meanwhile", () => {
  const scene = new Scene(1);
  const [a, b] = [scene.arrive("a", "team-a", 1), scene.arrive("b", "team-a", 2)];
  const pod = scene.podOf(a, { workloadUid: "w-a" });
  scene.put(pod);
  scene.begin(a, "a");
  scene.change("a", { started: true });
  scene.remove(pod);
  assert.deepEqual(scene.open(b), []);
});

test("an attempt that creates another pod leaves the place of the first attempt to nobody", () => {
  const scene = new Scene(2);
  const a = scene.arrive("a", "team-a", 1);
  scene.begin(a, "a");
  scene.limit.settle(a, new Failure("remote", "the request was lost"));
  scene.limit.grant(a, { mounts: new Set(["mp-other"]), uids: new Set(["w-a"]) });
  scene.put(scene.podOf(a, { name: "mp-other", mountId: "mp-other", workloadUid: "w-gone" }));
  assert.equal(scene.taken(a), 2, "the pod, and the next one for the workload");
  const b = scene.arrive("b", "team-a", 2);
  assert.deepEqual(scene.open(b), []);
});

test("a pod that a crash left costs no place for its own workload, and one for others", () => {
  for (const [workloadUid, isOpen] of [
    ["w-w1", true],
    ["w-gone", false],
  ] as const) {
    const scene = new Scene(2);
    const [a = "", b = ""] = scene.arriveWith(["a", "b"], old("w1"));
    scene.put(scene.podOf(a, { workloadUid }));
    assert.deepEqual(scene.open(b), isOpen ? [b] : [], workloadUid);
  }
});

test("while a failed pod is to get a successor, new workloads wait for it and cost no place", () => {
  const scene = new Scene(2);
  const a = scene.arrive("a", "team-a", 1);
  const pod = scene.serve(a, "a");
  const [, b = ""] = scene.arriveWith(["a", "b"], young("w2"));
  scene.put({ ...pod, backingOff: true }, pod);
  assert.deepEqual([scene.admitted(a), scene.open(a, b)], [["w-w2"], [b]]);
  scene.change("a", { terminating: true });
  assert.deepEqual(scene.open(a, b), [], "there is no successor for a terminating workload");
});

test("a workload that has a part of its volumes does not stand behind another such workload", () => {
  const scene = new Scene(3);
  const a = scene.arrive("a", "team-a", 1);
  const pod = scene.serve(a, "a");
  const [, b = "", c = ""] = scene.arriveWith(["a", "b", "c"], { ...young("w2"), second: 2 });
  scene.arriveWith(["b", "c"], { ...young("w3"), second: 3 });
  scene.serve(c, "w2", "w3");
  scene.change("a", { terminating: true });
  scene.put({ ...pod, backingOff: true }, pod);
  assert.deepEqual([scene.admitted(b), scene.open(b)], [["w-w3"], [b]]);
});

test("a running workload keeps its place while its attachment is deleted by hand", () => {
  const scene = new Scene(1);
  const [a, b] = [scene.arrive("a", "team-a", 1), scene.arrive("b", "team-a", 2)];
  const pod = scene.serve(a, "a");
  scene.change("a", { started: true });
  scene.unlist(a);
  scene.put({ ...pod, finished: true }, pod);
  assert.deepEqual([scene.taken(a), scene.open(a, b)], [1, []]);
});

test("a Mountpoint Pod with another engine takes no new workloads", () => {
  const scene = new Scene(2);
  const a = scene.arrive("a", "team-a", 1);
  const pod = scene.podOf(a, { mountId: `mp-${a}.mount-s3` });
  scene.put(pod);
  scene.list(a, pod, "a");
  const [, b = ""] = scene.arriveWith(["a", "b"], young("w2"));
  assert.deepEqual(scene.open(a, b), [], "two places are needed, and one is free");
});

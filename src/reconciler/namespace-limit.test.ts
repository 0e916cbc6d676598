import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { Scene } from "./test-limit-scene.ts";

test("the oldest workload gets a place first, in whatever order the watch tells of them", () => {
  const scene = new Scene(1);
  const [third, first, second] = [3, 1, 2].map((at) => scene.arrive(`v${at}`, "team-a", at));
  assert(first !== undefined && second !== undefined && third !== undefined);
  assert.deepEqual(scene.open(first, second, third), [first]);
  const pod = scene.serve(first, "v1");
  assert.deepEqual(scene.open(second, third), []);
  scene.end("v1", first, pod);
  assert.deepEqual(scene.open(second, third), [second]);
});

test("of two workloads of one second, one gets places for all its volumes first", () => {
  const volumes = ["a", "b", "c"];
  const scene = new Scene(4);
  const [one = [], other = []] = ["node-1", "node-2"].map((nodeName) =>
    scene.arriveWith(volumes, { name: nodeName, namespace: "team-a", second: 1, nodeName }),
  );
  assert.deepEqual(scene.open(...one, ...other), one);
});

test("a workload gets no place before there is one for each of its volumes", () => {
  const scene = new Scene(2);
  const first = scene.arrive("w1", "team-a", 1);
  const served = scene.serve(first, "w1");
  const younger = scene.arriveWith(["c", "d"], { name: "w3", namespace: "team-a", second: 3 });
  assert.deepEqual(scene.open(...younger), [], "one place is not enough");
  const older = scene.arriveWith(["e", "f"], { name: "w2", namespace: "team-a", second: 2 });
  scene.end("w1", first, served);
  assert.deepEqual(scene.open(...younger, ...older), older);
});

test("a workload that has one of its volumes gets the others before older workloads", () => {
  const scene = new Scene(2);
  const volumes = scene.arriveWith(["c", "d"], { name: "w3", namespace: "team-a", second: 3 });
  const [c = "", d = ""] = volumes;
  scene.serve(c, "w3");
  const older = scene.arrive("w2", "team-a", 2);
  assert.deepEqual(scene.open(d, older), [d]);
});

test("a running Mountpoint Pod is not shared before the other volumes have a place", () => {
  const scene = new Scene(1);
  const a = scene.arrive("w1", "team-a", 1);
  const pod = scene.serve(a, "w1");
  const both = scene.arriveWith(["w1", "b"], { name: "w2", namespace: "team-a", second: 2 });
  assert.deepEqual(scene.limit.placeOf(a)?.tooLarge, new Map([["w-w2", 2]]));
  const alone = scene.arriveWith(["w1"], { name: "w3", namespace: "team-a", second: 3 });
  assert.deepEqual([both[0], alone[0]], [a, a]);
  assert.deepEqual(scene.limit.placeOf(a)?.admitted, new Set(["w-w3"]), "sharing costs no place");
  assert.equal(scene.limit.placeOf(a)?.mayCreate, false);
  scene.list(a, pod, "w1", "w3");
  assert.deepEqual(scene.limit.placeOf(a)?.admitted, new Set());
});

test("a workload with more volumes than the limit keeps no place from others", () => {
  const scene = new Scene(2);
  const large = scene.arriveWith(["a", "b", "c"], { name: "w1", namespace: "team-a", second: 1 });
  const small = scene.arrive("w2", "team-a", 2);
  assert.deepEqual(scene.open(...large, small), [small]);
  assert.deepEqual(scene.limit.placeOf(large[0] ?? "")?.tooLarge, new Map([["w-w1", 3]]));
});

test("other namespaces have places of their own", () => {
  const scene = new Scene(1);
  const [one, other] = [scene.arrive("a", "team-a", 1), scene.arrive("b", "team-b", 2)];
  scene.serve(one, "a");
  assert.deepEqual([scene.taken(one), scene.taken(other)], [1, 1]);
  assert.deepEqual(scene.open(other), [other]);
});

test("a successor takes no second place; a pod that has finished takes none", () => {
  const scene = new Scene(2);
  const name = scene.arrive("a", "team-a", 1);
  const first = scene.podOf(name);
  scene.put(first);
  scene.list(name, first, "a");
  const successor = scene.podOf(name, { name: "mp-next", mountId: first.mountId });
  scene.put(successor);
  assert.equal(scene.taken(name), 1);
  scene.list(name, successor, "a");
  scene.put({ ...first, finished: true }, first);
  assert.equal(scene.taken(name), 1);
  scene.put({ ...successor, finished: true }, successor);
  scene.unlist(name);
  assert.equal(scene.taken(name), 1, "the place is promised to the workload again");
  assert.deepEqual(scene.open(name), [name]);
});

test("a waiting workload is looked at when it gets a place, and when it loses one", () => {
  const scene = new Scene(2);
  const [one, two] = [3, 4].map((n) => scene.arrive(`v${n}`, "team-a", n));
  assert(one !== undefined && two !== undefined);
  const pod = scene.serve(one, "v3");
  assert.deepEqual(scene.open(two), [two]);
  scene.takeWoken();
  const older = scene.arrive("v2", "team-a", 2);
  assert.deepEqual(scene.takeWoken().toSorted(), [older, two].toSorted(), "two has lost its place");
  scene.serve(older, "v2");
  scene.takeWoken();
  scene.end("v3", one, pod);
  assert(scene.takeWoken().includes(two));
  assert.deepEqual(scene.open(two), [two]);
});

test("a pod that is being made has its place before anybody older that comes meanwhile", () => {
  const scene = new Scene(1);
  const younger = scene.arrive("younger", "team-a", 2);
  scene.begin(younger, "younger");
  const older = scene.arrive("older", "team-a", 1);
  assert.deepEqual(scene.open(older), []);
  scene.limit.settle(younger, new Failure("remote", "the answer was lost"));
  assert.deepEqual(scene.open(older), [], "the pod may be there");
  scene.limit.settle(younger);
  assert.deepEqual(scene.open(older), [older]);
});

test("an attachment whose pod can't be made keeps its place from nobody", () => {
  const scene = new Scene(1);
  const [wrong, right] = [scene.arrive("wrong", "team-a", 1), scene.arrive("right", "team-a", 2)];
  scene.takeWoken();
  scene.begin(wrong, "wrong");
  scene.limit.settle(wrong, new Failure("invalid", "no such quantity"));
  assert(scene.takeWoken().includes(right));
  assert.deepEqual(scene.open(right), [right]);
});

test("ten thousand workloads over the limit are looked at in seconds", () => {
  const scene = new Scene(1);
  const first = scene.arrive("first", "team-a", 0);
  scene.serve(first, "first");
  const sinceMs = performance.now();
  for (let n = 0; n < 10_000; n += 1) {
    const name = scene.arrive(`w${n}`, "team-a", n % 10);
    assert.equal(scene.limit.placeOf(name)?.admitted.size, 0);
  }
  assert(performance.now() - sinceMs < 5_000, "none of them looks at all the others");
});

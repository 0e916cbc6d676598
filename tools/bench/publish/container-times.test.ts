import assert from "node:assert/strict";
import { test } from "node:test";
import { ContainerTimes } from "./container-times.ts";

const DAY = "2026-11-15";

test("start and end of a container are taken from the runtime's lines, and nothing else", () => {
  const times = new ContainerTimes();
  const say = (time: string, topic: string, facts: object) =>
    times.take(`${DAY} ${time} +0000 UTC k8s.io ${topic} ${JSON.stringify(facts)}`);
  say("15:06:20.123456789", "/tasks/create", { container_id: "one", pid: 1 });
  say("15:06:20.5", "/tasks/start", { container_id: "one", pid: 1 });
  say("15:06:21.25", "/tasks/exit", { container_id: "one", id: "exec-1", pid: 2 });
  assert.equal(times.startedMs("one"), Date.parse(`${DAY}T15:06:20.500Z`));
  assert.throws(
    () => times.endedMs("one"),
    /no end of one/,
    "a command in it has ended, it has not",
  );
  say("15:06:22.000000001", "/tasks/exit", { container_id: "one", id: "one", pid: 1 });
  assert.equal(times.endedMs("one"), Date.parse(`${DAY}T15:06:22Z`));
});

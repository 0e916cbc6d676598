import assert from "node:assert/strict";
import { test } from "node:test";
import { publishedIn } from "./published.ts";
import { figuresOf, tunedFigures } from "./samples.ts";

const LOG = [
  `{"level":"info","time":"2026-11-15T15:06:20.000Z","msg":"waiting"}`,
  `{"time":"2026-11-15T15:06:20.600Z","pod":"a","engine_ms":120,"bind_ms":1,"total_ms":600,"msg":"volume published"}`,
  `{"time":"2026-11-15T15:06:21.000Z","pod":"b","bind_ms":1,"total_ms":3,"msg":"volume published"}`,
  "",
].join("\n");

test("the figures are made from log lines and events", () => {
  const published = publishedIn(LOG);
  const [first, second] = published;
  assert(first !== undefined && second !== undefined);
  const figures = figuresOf({
    floorMs: [500, 520, 700],
    firstReadyMs: [1100, 1000, 1400],
    secondReadyMs: [480, 500, 600],
    burstFloorMs: [2500],
    doubleFloorMs: [4500],
    burstVolumesMs: [5000, 15_040, 5960],
    burstOneMs: [4000],
    departures: [{ endedMs: 100, goneMs: 900, mounterEndedMs: 250, mountpointGoneMs: 2000 }],
    first: [{ ...first, containerStartedMs: first.atMs - 270 }],
    shared: [second],
    burstPublished: [published],
    memory: { rssMib: 80, anonymousMib: 30, pssMib: 50, processes: 2 },
  });
  assert.equal(figures["first_over_floor_ms"], 580);
  assert.equal(figures["second_over_floor_ms"], -20);
  assert.equal(figures["mp_gone_ms"], 1100);
  assert.equal(figures["teardown_ms_p50"], 150);
  assert.equal(figures["burst40_floor_s"], 4.5);
  assert.equal(figures["burst20_pvs_s"], 5.96);
  assert.equal(figures["burst20_pvs_each_s"], "5.0, 15.0, 6.0");
  assert.equal(figures["burst20_s"], 1, "from the first question, at .000, to the last answer");
  assert.equal(figures["new_own_ms_p50"], 270);
  assert.equal(figures["new_start_ms_p50"], 149);
  assert.equal(figures["new_engine_ms_p50"], 120);
  assert.equal(figures["shared_ms_p99"], 3);
  assert.equal(tunedFigures(figures)["tuned_burst20_pvs_s"], 5.96);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { countWrites } from "./write-count.ts";

const line = (verb: string, resource: string, subresource: string, count: number) =>
  `apiserver_request_total{code="200",group="",resource="${resource}",` +
  `subresource="${subresource}",verb="${verb}",version="v1"} ${count}`;

test("writes are counted by what they change, lists and parts of pods are not", () => {
  const metrics = [
    "# TYPE apiserver_request_total counter",
    line("POST", "pods", "", 3),
    line("PATCH", "pods", "", 2),
    line("PATCH", "pods", "status", 100),
    line("POST", "pods", "binding", 100),
    line("LIST", "pods", "", 100),
    line("POST", "mountpoints3podattachments", "", 4),
    line("PATCH", "mountpoints3podattachments", "status", 1),
    line("GET", "mountpoints3podattachments", "", 6),
    line("GET", "pods", "", 1),
    line("GET", "nodes", "", 100),
    line("WATCH", "mountpoints3podattachments", "", 100),
  ];
  assert.deepEqual(countWrites(metrics.join("\n")), { pods: 5, attachments: 5, reads: 7 });
});

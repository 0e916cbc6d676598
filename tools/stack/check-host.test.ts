import assert from "node:assert/strict";
import { test } from "node:test";
import { complaintAbout } from "./check-host.ts";
import type { Host } from "./check-host.ts";

const good: Host = { uid: 0, exists: () => true, hasProgram: () => true };

test("a host with everything gives no complaint", () => {
  assert.equal(complaintAbout(good), undefined);
});

const lacks: [what: string, host: Host, says: RegExp][] = [
  ["root", { ...good, uid: 1000 }, /needs root/],
  ["/dev/fuse", { ...good, exists: (path) => path !== "/dev/fuse" }, /needs \/dev\/fuse/],
  ["openssl", { ...good, hasProgram: (name) => name !== "openssl" }, /install .* openssl$/],
  ["nsenter", { ...good, hasProgram: (name) => name !== "nsenter" }, /nsenter: .* util-linux$/],
];
for (const [what, host, says] of lacks) {
  test(`a host without ${what} gives one line that says so`, () => {
    const complaint = complaintAbout(host) ?? "";
    assert.match(complaint, says);
    assert(!complaint.includes("\n"));
  });
}

import assert from "node:assert/strict";
import { test } from "node:test";
import { ENGINES, engineOf, isOwnMount, mountIdOf, refuseOptionsOfOurs } from "./engine.ts";
import { planMount } from "./mount-options.ts";

test("a mount's name says its engine, whoever serves it", () => {
  for (const engine of ENGINES) {
    const mountId = mountIdOf("mp-1", engine);
    assert.equal(engineOf(mountId), engine);
    assert(isOwnMount("mp-1", mountId));
    assert(!isOwnMount("mp-2", mountId));
  }
  assert.equal(mountIdOf("mp-1", "s3csi"), "mp-1", "as it was before there was a choice");
});

// prettier-ignore
const options: [mountOptions: string[], refused: string | undefined][] = [
  [["allow-delete", "metadata-ttl 300", "part-size=5242880"], undefined],
  [["an-option-of-tomorrow=1", "incremental-upload"],         undefined],
  [["prefix=no-resend/"],                                     undefined],
  [["allow-other", "outage-limit=120"],                       "outage-limit"],
  [["--no-resend"],                                           "no-resend"],
  [["inode-limit 1000"],                                      "inode-limit"],
  [["no-journal"],                                            "no-journal"],
];
for (const [mountOptions, refused] of options) {
  test(`mount-s3 and ${mountOptions.join()}: ${refused === undefined ? "its own to judge" : "refused"}`, () => {
    const { args } = planMount(mountOptions, "");
    if (refused === undefined) return refuseOptionsOfOurs(args);
    const message = new RegExp(`^mountOptions: ${refused} is not an option of the engine mount-s3`);
    assert.throws(() => refuseOptionsOfOurs(args), { kind: "invalid", message });
  });
}

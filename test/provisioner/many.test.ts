import assert from "node:assert/strict";
import { test } from "node:test";
import { startWorld } from "./world.ts";

const CLAIMS = process.env["FULL"] ? 200 : 100;

test(
  "many claims at once, two provisioners at once: a bucket for each, none too many, none left",
  { timeout: 180_000 },
  async () => {
    await using world = await startWorld(2);
    const { users } = world;
    const names = Array.from({ length: CLAIMS }, (_, index) => `many-${index}`);
    await Promise.all(names.map((name) => users.claim(name, "plain")));
    const volumes = await Promise.all(names.map((name) => users.bound(name)));
    const handles = volumes.map((volume) => volume.spec?.csi?.volumeHandle ?? "");
    assert.equal(new Set(handles).size, CLAIMS);
    assert.deepEqual((await users.buckets()).toSorted(), handles.toSorted());
    await Promise.all(names.map((name) => users.removed(name)));
    assert.deepEqual(await users.buckets(), []);
  },
);

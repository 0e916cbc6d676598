import assert from "node:assert/strict";
import { test } from "node:test";
import { parseVolumeHandle, volumeUuidOf } from "../volume/volume-handle.ts";
import type { VolumeUse } from "../volume/volume-use.ts";
import { permissionFor } from "./deletion-guard.ts";

const signal = AbortSignal.timeout(10_000);
const UUID = volumeUuidOf("pvc-1");
const BUCKET = `csi-s3-${UUID}`;
const PREFIX = `shared/team/${UUID}/#delete`;
const RETAINED = `shared/team/${UUID}/`;
const REFERENCE = "csi-s3-0f0e0d0c-0b0a-4908-8706-050403020100";

/** A PV whose pods see what its handle says. */
function use(pv: string, handle: string, given: Partial<VolumeUse> = {}): VolumeUse {
  const { bucket = "", prefix = "" } = parseVolumeHandle(handle) ?? {};
  return { pv, handle, bucket, prefix, isReleased: true, ...given };
}

const bound = { isReleased: false };
const ofStatic = (bucket: string, prefix = "") =>
  use("by-hand", "any-handle", { bucket, prefix, ...bound });
const inUse = (...pvs: string[]) => new RegExp(`is in use by ${pvs.join(", ")}`);

type Expected = "delete" | "delete-empty" | RegExp;
// prettier-ignore
const cases: [name: string, volumeId: string, pv: string | undefined, uses: VolumeUse[] | undefined, expected: Expected][] = [
  ["its only PV is Released",              BUCKET,    undefined,  [use("pvc-1", BUCKET)],                                "delete"],
  ["a prefix whose only PV is Released",   PREFIX,    undefined,  [use("pvc-1", PREFIX)],                                "delete"],
  ["a bucket of the reference driver",     REFERENCE, undefined,  [use("pvc-x", REFERENCE)],                             "delete"],
  ["its PV is bound",                      BUCKET,    undefined,  [use("pvc-1", BUCKET, bound)],                         /PV pvc-1, which is not Released/],
  ["its only PV has another name",         BUCKET,    undefined,  [use("forged", BUCKET)],                               /is not that of forged/],
  ["two PVs have its handle",              BUCKET,    undefined,  [use("forged", BUCKET), use("pvc-1", BUCKET, bound)],  inUse("PV forged", "PV pvc-1")],
  ["two have it from the reference driver", REFERENCE, undefined, [use("pvc-x", REFERENCE), use("pvc-y", REFERENCE)],    inUse("PV pvc-x", "PV pvc-y")],
  ["the victim's handle says retain",      PREFIX,    undefined,  [use("forged", PREFIX), use("pvc-1", RETAINED, bound)], inUse("PV forged", "PV pvc-1")],
  ["a static PV has its bucket",           BUCKET,    undefined,  [ofStatic(BUCKET)],                                    inUse("PV by-hand")],
  ["there is no PV",                       BUCKET,    undefined,  [use("pvc-2", `csi-s3-${volumeUuidOf("pvc-2")}`)],     "delete-empty"],
  ["there is no API server",               BUCKET,    undefined,  undefined,                                             "delete-empty"],
  ["a prefix without an API server",       PREFIX,    undefined,  undefined,                                             "delete-empty"],
  ["a PV tells its name",                  BUCKET,    "pvc-1",    [use("pvc-1", BUCKET)],                                "delete"],
  ["a PV of another name",                 BUCKET,    "forged",   [use("forged", BUCKET)],                               /is not that of forged/],
  ["a PV beside another with its handle",  BUCKET,    "pvc-1",    [use("pvc-1", BUCKET), use("copy", BUCKET, bound)],    inUse("PV copy")],
  ["a PV beside a static one in its bucket", BUCKET,  "pvc-1",    [use("pvc-1", BUCKET), ofStatic(BUCKET, "logs/")],     inUse("PV by-hand")],
  ["a second PV of the reference driver",  REFERENCE, "second",   [use("second", REFERENCE), use("pvc-x", REFERENCE, bound)], inUse("PV pvc-x")],
  ["a prefix in a bucket with other PVs",  PREFIX,    "pvc-1",    [use("pvc-1", PREFIX), ofStatic("shared"), ofStatic("shared", "team/other/")], "delete"],
  ["a static PV below the prefix",         PREFIX,    "pvc-1",    [use("pvc-1", PREFIX), ofStatic("shared", `team/${UUID}/logs/`)], inUse("PV by-hand")],
  ["many PVs",                             BUCKET,    "pvc-1",    ["a", "b", "c", "d", "e"].map((pv) => use(pv, BUCKET)), /PV a, PV b, PV c and 2 more$/],
];
for (const [name, volumeId, pv, uses, expected] of cases) {
  const outcome = typeof expected === "string" ? expected : "nothing";
  test(`${name}${pv === undefined ? "" : ` (${pv} asks)`}: ${outcome}`, async () => {
    const place = parseVolumeHandle(volumeId);
    assert(place !== undefined);
    const findUses = uses && (async () => uses);
    const permission = await permissionFor({ volumeId, place, pv }, findUses, signal);
    assert.equal(permission.may, outcome);
    if (permission.may !== "nothing") return;
    assert.match(permission.why, /^nothing was deleted: volume handle /);
    assert(expected instanceof RegExp);
    assert.match(permission.why, expected);
  });
}

const neverAsked = () => assert.fail("nobody need ask");

test("what is retained anyway needs no list of PVs", async () => {
  const place = parseVolumeHandle(RETAINED);
  assert(place !== undefined);
  const deletion = { volumeId: RETAINED, place, pv: "pvc-1" };
  assert.deepEqual(await permissionFor(deletion, neverAsked, signal), { may: "delete" });
});

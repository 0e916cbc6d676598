import assert from "node:assert/strict";
import { test } from "node:test";
import { volumeUuidOf } from "../volume/volume-handle.ts";
import { CLAIM_FINALIZER, claimOf, volumeOf } from "./facts.ts";
import { NOTE_ANNOTATION, noteText, parseNote } from "./note.ts";
import type { Note } from "./note.ts";

const volume = `csi-s3-${volumeUuidOf("pvc-1")}`;
const secret = { namespace: "team", name: "keys.v1" };

for (const note of [
  { volume, secret },
  { volume: `${volume}@r-1`, secret: undefined },
] as Note[]) {
  test(`a note comes back as it was written: ${noteText(note)}`, () => {
    assert.deepEqual(parseNote(noteText(note), "pvc-1"), note);
  });
}

// prettier-ignore
const forged: [name: string, text: string | undefined][] = [
  ["none",                       undefined],
  ["no JSON",                    "{"],
  ["another thing",              "[]"],
  ["another volume's bucket",    noteText({ volume: `csi-s3-${volumeUuidOf("pvc-2")}`, secret })],
  ["another volume's prefix",    noteText({ volume: `shared/${volumeUuidOf("pvc-2")}/#delete`, secret })],
  ["a bucket of nobody's",       noteText({ volume: "backups", secret })],
  ["a whole bucket's objects",   noteText({ volume: "backups/#delete", secret })],
  ["a Secret by a path",         noteText({ volume, secret: { namespace: "..", name: "keys" } })],
  ["a Secret without a name",    noteText({ volume, secret: { namespace: "team", name: "" } })],
];
for (const [name, text] of forged) {
  test(`a note is not believed: ${name}`, () => {
    assert.equal(parseNote(text, "pvc-1"), undefined);
  });
}

test("a note is the driver's own affair, and means nothing on a claim that is not held", () => {
  const annotations = {
    "volume.kubernetes.io/storage-provisioner": "s3.csi.scality.com",
    [NOTE_ANNOTATION]: noteText({ volume, secret }),
    team: "red",
  };
  const metadata = { uid: "1", annotations };
  const free = claimOf({ metadata });
  assert.equal(free?.note, undefined);
  assert.equal(free?.annotations[NOTE_ANNOTATION], undefined);
  assert.equal(free?.annotations["team"], "red");
  const held = claimOf({ metadata: { ...metadata, finalizers: [CLAIM_FINALIZER] } });
  assert.deepEqual(held?.note, { volume, secret });
});

const NAME = "volume.kubernetes.io/provisioner-deletion-secret-name";
const NAMESPACE = `${NAME}space`;
// prettier-ignore
const annotated: [annotations: Record<string, string>, keys: object][] = [
  [{},                                {}],
  [{ [NAME]: "", [NAMESPACE]: "" },   { of: "driver" }],
  [{ [NAME]: "a", [NAMESPACE]: "b" }, { of: "secret", secret: { name: "a", namespace: "b" } }],
  [{ [NAME]: "a" },                   { of: "half", set: NAME, missing: NAMESPACE }],
  [{ [NAME]: "a", [NAMESPACE]: "" },  { of: "half", set: NAME, missing: NAMESPACE }],
  [{ [NAMESPACE]: "b" },              { of: "half", set: NAMESPACE, missing: NAME }],
];
for (const [annotations, keys] of annotated) {
  test(`a PV with ${JSON.stringify(annotations)} is deleted by whom it names`, () => {
    const driver = "s3.csi.scality.com";
    const made = volumeOf({
      metadata: { annotations: { ...annotations, "pv.kubernetes.io/provisioned-by": driver } },
      spec: { csi: { driver, volumeHandle: volume } },
    });
    assert.deepEqual(made?.deletionKeys, { of: "untold", ...keys });
  });
}

import assert from "node:assert/strict";
import { test } from "node:test";
import { decideClaim, decideVolume } from "./decide.ts";
import type { ClaimStep, VolumeStep } from "./decide.ts";
import type { Claim, Class, Volume } from "./facts.ts";
import { CLAIM, CLASS, VOLUME } from "./test-objects.ts";

interface Picture {
  readonly claim?: Partial<Claim>;
  readonly storageClass?: Partial<Class> | null;
  readonly volume?: Volume;
}

const waits = { waitsForConsumer: true };
const bound = { isBound: true, volumeName: "pvc-u-1" };
const elsewhere = { isBound: true, volumeName: "another" };
// prettier-ignore
const claims: [name: string, picture: Picture, step: ClaimStep][] = [
  ["a claim gets its volume",                       {},                                                        "provision"],
  ["not without its class",                         { storageClass: null },                                    "wait"],
  ["not before a consumer is scheduled",            { storageClass: waits },                                   "wait"],
  ["but then",                                      { storageClass: waits, claim: { selectedNode: "n" } },     "provision"],
  ["not when it is going",                          { claim: { isTerminating: true } },                        "wait"],
  ["not when it asks for a volume by name",         { claim: { volumeName: "mine" } },                         "wait"],
  ["not when its PV is there",                      { volume: VOLUME },                                        "wait"],
  ["after a crash it goes on",                      { claim: { isHeld: true } },                               "provision"],
  ["even if it needs the class to come back",       { claim: { isHeld: true }, storageClass: null },           "provision"],
  ["with its PV it waits for the binder",           { claim: { isHeld: true }, volume: VOLUME },               "wait"],
  ["bound, it is let go",                           { claim: { isHeld: true, ...bound }, volume: VOLUME },     "let-go"],
  ["going, with a PV that tells of the bucket",     { claim: { isHeld: true, isTerminating: true }, volume: VOLUME }, "let-go"],
  ["going, without one",                            { claim: { isHeld: true, isTerminating: true } },          "discard"],
  ["bound to another PV meanwhile",                 { claim: { isHeld: true, ...elsewhere } },                 "discard"],
  ["bound to a PV that is gone",                    { claim: { isHeld: true, ...bound } },                     "let-go"],
];
for (const [name, { claim, storageClass, volume }, step] of claims) {
  test(name, () => {
    const picked = storageClass === null ? undefined : { ...CLASS, ...storageClass };
    assert.equal(decideClaim({ ...CLAIM, ...claim }, picked, volume), step);
  });
}

const released = { phase: "Released" };
// prettier-ignore
const volumes: [name: string, volume: Partial<Volume>, step: VolumeStep][] = [
  ["a bound volume is left alone",                  {},                                                        "wait"],
  ["one of the sidecar's without the finalizer",    { hasFinalizer: false },                                   "protect"],
  ["a released one is deleted",                     released,                                                  "delete"],
  ["also without the finalizer",                    { ...released, hasFinalizer: false },                      "delete"],
  ["also if its PV was deleted first",              { ...released, isTerminating: true },                      "delete"],
  ["not if somebody has taken the finalizer",       { ...released, isTerminating: true, hasFinalizer: false }, "wait"],
  ["not while it is bound",                         { isTerminating: true },                                   "wait"],
  ["not if it is to be retained",                   { ...released, reclaimPolicy: "Retain", hasFinalizer: false }, "wait"],
  ["Retain needs no finalizer",                     { reclaimPolicy: "Retain" },                               "unprotect"],
  ["not yet bound",                                 { phase: "Pending", hasFinalizer: false },                 "wait"],
];
for (const [name, volume, step] of volumes) {
  test(`volume: ${name}`, () => {
    assert.equal(decideVolume({ ...VOLUME, ...volume }), step);
  });
}

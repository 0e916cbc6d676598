import assert from "node:assert/strict";
import { test } from "node:test";
import type { PersistentVolume } from "../kube/resource.ts";
import { useOf } from "./volume-uses.ts";

interface Given {
  readonly phase?: string;
  readonly isTerminating?: boolean;
  readonly attributes?: Record<string, string>;
  readonly mountOptions?: string[];
  readonly driver?: string;
}

function volume({ phase, isTerminating, attributes, mountOptions, driver }: Given) {
  const csi = { driver: driver ?? "s3.csi.scality.com", volumeHandle: "handle" };
  const object: PersistentVolume = {
    metadata: { name: "pv", ...(isTerminating && { deletionTimestamp: "2026-01-01T00:00:00Z" }) },
    spec: {
      csi: { ...csi, ...(attributes && { volumeAttributes: attributes }) },
      ...(mountOptions && { mountOptions }),
    },
    ...(phase !== undefined && { status: { phase } }),
  };
  return useOf(object);
}

test("a PV of another driver is no use of a volume", () => {
  assert.equal(volume({ driver: "other.csi.k8s.io" }), undefined);
});

// prettier-ignore
const phases: [phase: string, isTerminating: boolean, isReleased: boolean][] = [
  ["Bound",     false, false],
  ["Bound",     true,  false],
  ["Available", false, false],
  ["Available", true,  true],
  ["Released",  false, true],
  ["Released",  true,  true],
  ["",          false, false],
];
for (const [phase, isTerminating, isReleased] of phases) {
  const terminating = isTerminating ? ", terminating" : "";
  test(`a PV ${phase || "without phase"}${terminating}: ${isReleased ? "" : "not "}released`, () => {
    assert.equal(volume({ phase, isTerminating })?.isReleased, isReleased);
  });
}

// prettier-ignore
const prefixes: [attributes: Record<string, string>, mountOptions: string[], prefix: string][] = [
  [{ prefix: "a/" },  [],                             "a/"],
  [{},                ["allow-delete", "prefix a/"],  "a/"],
  [{},                ["--prefix=a/b/"],              "a/b/"],
  [{},                ["Read Only", "prefixes=x/"],   ""],
  [{},                [],                             ""],
];
for (const [attributes, mountOptions, prefix] of prefixes) {
  test(`a PV with ${JSON.stringify([attributes, mountOptions])} is below ${prefix || "all"}`, () => {
    const given = { attributes: { bucketName: "data", ...attributes }, mountOptions };
    const { bucket, prefix: found } = volume(given) ?? {};
    assert.deepEqual([bucket, found], ["data", prefix]);
  });
}

import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  attachmentNameOf,
  attachmentSpecOf,
  joinedOptionsOf,
  mountpointPodOf,
  optionListOf,
} from "./attachment.ts";
import type { SharingKey } from "./attachment.ts";
import { isMountpointPodClaim, labelValueOf, mountpointPodNameOf } from "./names.ts";

const DNS_NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const text = fc.string({ unit: "binary", maxLength: 300 });
const sharingKey: fc.Arbitrary<SharingKey> = fc.record({
  nodeName: text,
  persistentVolumeName: text,
  volumeID: text,
  mountOptions: text,
  workloadFSGroup: text,
  authenticationSource: text,
  workloadNamespace: text,
  workloadServiceAccountName: text,
});

test("a Mountpoint Pod is called mp- and the sha224 of workload UID and PV name", () => {
  // printf '%s' 'uid-1pv-1' | sha224sum, and with /2 for the second successor
  assert.equal(
    mountpointPodNameOf("uid-1", "pv-1"),
    "mp-6e81eb31f43c429fe102b199658d7ddaf99511757dc741bf4881068c",
  );
  assert.equal(
    mountpointPodNameOf("uid-1", "pv-1", 2),
    "mp-589e7ffd50d89e64d46c5468a610f1d9f9d9efa6d1dfbb56642938bf",
  );
});

test("the claim of an ephemeral volume of a Mountpoint Pod is known by its name", () => {
  const pod = mountpointPodNameOf("uid-1", "pv-1");
  assert(isMountpointPodClaim(`${pod}-cache`));
  for (const other of [pod, `a-${pod}-cache`, "mp-data", "data"]) {
    assert(!isMountpointPodClaim(other), other);
  }
});

test("every name is a legal name of a pod, whatever it is made from", () => {
  fc.assert(
    fc.property(sharingKey, text, fc.nat(), (key, uid, generation) => {
      assert.match(mountpointPodNameOf(uid, key.persistentVolumeName, generation), DNS_NAME);
      assert.match(attachmentNameOf(key, uid), DNS_NAME);
    }),
  );
});

test("sharing keys that differ, or PVs made again, never meet at one attachment", () => {
  fc.assert(
    fc.property(sharingKey, sharingKey, text, text, (a, b, uidA, uidB) => {
      const same = JSON.stringify([a, uidA]) === JSON.stringify([b, uidB]);
      assert.equal(attachmentNameOf(a, uidA) === attachmentNameOf(b, uidB), same);
    }),
  );
});

test("text moved from one field to the next makes another attachment", () => {
  const key = {
    nodeName: "n",
    persistentVolumeName: "ab",
    volumeID: "c",
    mountOptions: "",
    workloadFSGroup: "",
    authenticationSource: "driver",
    workloadNamespace: "",
    workloadServiceAccountName: "",
  };
  const moved = { ...key, persistentVolumeName: "a", volumeID: "bc" };
  assert.notEqual(attachmentNameOf(key, "u"), attachmentNameOf(moved, "u"));
});

test("options with a comma inside never share with the options that they would look like", () => {
  const base = {
    nodeName: "n",
    persistentVolumeName: "pv",
    volumeID: "v",
    workloadFSGroup: "",
    authenticationSource: "driver",
    workloadNamespace: "",
    workloadServiceAccountName: "",
  };
  const nameFor = (list: readonly string[]) =>
    attachmentNameOf({ ...base, ...joinedOptionsOf(list) }, "u");
  const option = fc.string({ unit: fc.constantFrom("a", ",", "\\", '"', "["), maxLength: 4 });
  const options = fc.array(option, { maxLength: 4 });
  fc.assert(
    fc.property(options, options, (a, b) => {
      const lists = [a, b].map((list) => optionListOf(joinedOptionsOf(list)));
      assert.equal(
        nameFor(a) === nameFor(b),
        JSON.stringify(lists[0]) === JSON.stringify(lists[1]),
      );
    }),
  );
  assert.notEqual(nameFor(["a,b"]), nameFor(["a", "b"]));
});

test("a volume without commas in its options keeps the attachment that it has", () => {
  const key = {
    nodeName: "node-1",
    persistentVolumeName: "pv",
    volumeID: "handle",
    ...joinedOptionsOf(["allow-delete", "region=us-east-1"]),
    workloadFSGroup: "",
    authenticationSource: "driver",
    workloadNamespace: "",
    workloadServiceAccountName: "",
  };
  // As release 0.1.0 named it: an upgrade must not give a running volume a second attachment.
  assert.equal(
    attachmentNameOf(key, "uid"),
    "s3pa-4f915170b6591f7e3f128cbb68c852299f6ee5dc38aa61fb66f165fe",
  );
});

test("a list of options comes back from a spec as it went in", () => {
  const options = fc.array(fc.string({ minLength: 1, maxLength: 5 }), { minLength: 1 });
  fc.assert(
    fc.property(options, (list) => {
      assert.deepEqual(optionListOf(joinedOptionsOf(list)), list);
    }),
  );
  assert.deepEqual(joinedOptionsOf(["a", "b"]), { mountOptions: "a,b" });
  assert.deepEqual(optionListOf(joinedOptionsOf([])), []);
});

test("a label's value is legal for names of any length, and itself where it can be", () => {
  assert.equal(labelValueOf("my-s3-pv"), "my-s3-pv");
  assert.match(labelValueOf("p".repeat(253)), /^[0-9a-f]{56}$/);
});

test("the optional fields of a spec are absent rather than empty", () => {
  const spec = attachmentSpecOf(
    {
      nodeName: "n1",
      persistentVolumeName: "pv",
      volumeID: "v",
      mountOptions: "",
      workloadFSGroup: "",
      authenticationSource: "driver",
      workloadNamespace: "",
      workloadServiceAccountName: "",
    },
    {
      attachments: { "mp-1": [{ workloadPodUID: "u1", attachmentTime: "2026-01-01T00:00:00Z" }] },
      mountIds: {},
    },
  );
  assert.equal(spec.authenticationSource, "driver");
  assert(!("workloadNamespace" in spec) && !("workloadServiceAccountName" in spec));
  assert(!("mountIDs" in spec));
  assert.equal(mountpointPodOf(spec, "u1"), "mp-1");
  assert.equal(mountpointPodOf(spec, "u2"), undefined);
});

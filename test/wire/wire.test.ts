import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, after, test } from "node:test";
import { programs } from "../../tools/programs.ts";
import { differences, wireFactsOf } from "./wire-facts.ts";
import type { WireFacts } from "./wire-facts.ts";

const OURS = join(import.meta.dirname, "../../src/csi/proto");
/** Gone from CSI 1.13 with its numbers reserved; kubelets (1.36 too) go by 1.9 and read it. */
const WITHDRAWN = /volume_condition|VolumeCondition|VOLUME_CONDITION/;
let scratch = "";
let official: WireFacts = new Map();

/** Both official definitions, as the Go modules of the pinned versions hold them. */
before(async () => {
  scratch = await mkdtemp(join(tmpdir(), "s3csi-wire-"));
  const files = join(scratch, "official");
  await cp(join(await programs("csi-test"), "files"), files, { recursive: true });
  await cp(join(await programs("kubernetes"), "files"), files, { recursive: true });
  official = await wireFactsOf(files);
});
after(() => rm(scratch, { recursive: true }));

test("what we serve is on the wire as the official definitions say", async () => {
  const ours = await wireFactsOf(OURS);
  for (const path of ["/csi.v1.Identity/Probe", "/pluginregistration.Registration/GetInfo"]) {
    assert(ours.has(path), `${path} is compared`);
  }
  const differing = differences(ours, official).filter((line) => !WITHDRAWN.test(line));
  assert.deepEqual(differing, []);
});

const mutations: [what: string, from: string, to: string, reported: RegExp][] = [
  ["a number", "target_path = 4", "target_path = 14", /NodePublishVolumeRequest\.target_path/],
  ["a type", "bool readonly = 6", "int32 readonly = 6", /NodePublishVolumeRequest\.readonly/],
  ["a label", "repeated string mount_flags", "string mount_flags", /MountVolume\.mount_flags/],
  ["a field name", "string fs_type", "string fstype", /fstype: .* official: nothing/],
  ["an enum value", "GET_VOLUME_STATS = 2", "GET_VOLUME_STATS = 12", /GET_VOLUME_STATS/],
  ["a method", "rpc Probe(", "rpc Prove(", /Identity\/Prove: .* official: nothing/],
  ["an answer", "returns (ProbeResponse)", "returns (ProbeRequest)", /Identity\/Probe/],
  ["a oneof", "oneof access_type", "oneof access", /VolumeCapability\.block/],
  ["the package", "package csi.v1", "package csi.v2", /package csi\.v2/],
];
for (const [what, from, to, reported] of mutations) {
  test(`a change of ${what} would be reported`, async () => {
    const dir = await mkdtemp(join(scratch, "mutated-"));
    const text = await readFile(join(OURS, "csi.proto"), "utf8");
    assert(text.includes(from), "the mutation still has its place");
    await writeFile(join(dir, "csi.proto"), text.replace(from, to));
    const found = differences(await wireFactsOf(dir), official);
    assert(
      found.some((line) => reported.test(line)),
      found.join("\n"),
    );
  });
}

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { readMounts } from "../../src/sys/mount-info.ts";
import { programs } from "../../tools/programs.ts";
import { run } from "../../tools/run.ts";
import { PlayedNode } from "./played-node.ts";
import { SanityFront } from "./sanity-front.ts";

interface Spec {
  readonly ContainerHierarchyTexts: readonly string[] | null;
  readonly LeafNodeText: string;
  readonly LeafNodeType: string;
  readonly State: string;
  readonly Failure?: { readonly Message?: string };
}

/** Cases that csi-sanity leaves out because of a capability, and why the driver has it not. */
const SKIPPED: Readonly<Record<string, string>> = {
  NodeStageVolume: "the source mount is made at publish: it belongs to a Mountpoint Pod",
  NodeUnstageVolume: "there is nothing to unstage either",
  NodeExpandVolume: "a bucket has no size",
  NodeGetVolumeHealth: "a volume's condition is the matter of NodeGetVolumeStats",
  NodeGetStorageHealth: "the S3 server's health is not the node's to tell",
};
const SERVICE = "Node Service";
const REASON = /not supported|does not have/;

test("csi-sanity passes its Node cases on real mounts", { timeout: 300_000 }, async () => {
  await using owned = new AsyncDisposableStack();
  const dir = mkdtempSync(join(tmpdir(), "s3csi-sanity-"));
  owned.defer(() => rmSync(dir, { recursive: true }));
  const played = owned.use(await PlayedNode.start());
  await played.startService();
  const mountDir = join(dir, "mounts");
  const endpoint = `unix://${join(dir, "csi.sock")}`;
  owned.use(await new SanityFront(played, mountDir).serve(endpoint));

  const specs = await sanity(dir, endpoint, mountDir);
  const failed = specs.filter(({ State }) => State !== "passed" && State !== "skipped");
  assert.deepEqual(failed.map(wordsFor), []);
  const skipped = specs.filter(({ State }) => State === "skipped");
  const unexplained = skipped.filter(
    (spec) => reasonOf(spec) === undefined || !REASON.test(spec.Failure?.Message ?? ""),
  );
  assert.deepEqual(unexplained.map(wordsFor), []);
  const passed = specs.filter(({ State }) => State === "passed").map(nameOf);
  for (const name of ["should remove target path", "should work", "should be idempotent"]) {
    const ran = passed.some((one) => one.endsWith(name));
    assert(ran, `${name}: among ${passed.join("; ")}`);
  }
  const needed = new Set(skipped.map(reasonOf));
  for (const reason of Object.values(SKIPPED)) assert(needed.has(reason), `obsolete: ${reason}`);

  await played.settled();
  const left = readMounts().filter(({ mountPoint }) => mountPoint.startsWith(played.kubeletPath));
  assert.deepEqual(left, []);
});

/** Runs the cases of the Node service, and tells how each went. */
async function sanity(dir: string, endpoint: string, mountDir: string): Promise<Spec[]> {
  const report = join(dir, "report.json");
  const args = ["--csi.endpoint", endpoint, "--csi.mountdir", mountDir];
  args.push("--csi.stagingdir", join(dir, "staging"), "--ginkgo.focus", SERVICE);
  const program = join(await programs("csi-test"), "csi-sanity");
  const ended = run(program, [...args, "--ginkgo.json-report", report, "--ginkgo.no-color"]);
  await ended.catch(() => undefined); // the report tells which case it was, and why
  const [suite] = JSON.parse(readFileSync(report, "utf8")) as [{ SpecReports: Spec[] }];
  return suite.SpecReports.filter(
    ({ LeafNodeType, ContainerHierarchyTexts }) =>
      LeafNodeType === "It" && ContainerHierarchyTexts?.[0]?.startsWith(SERVICE),
  );
}

function reasonOf(spec: Spec): string | undefined {
  const within = spec.ContainerHierarchyTexts ?? [];
  return within.map((container) => SKIPPED[container]).find((reason) => reason !== undefined);
}

function nameOf({ ContainerHierarchyTexts, LeafNodeText }: Spec): string {
  return [...(ContainerHierarchyTexts ?? []), LeafNodeText].join(": ");
}

function wordsFor(spec: Spec): string {
  return `${nameOf(spec)}: ${spec.State}: ${spec.Failure?.Message ?? ""}`;
}

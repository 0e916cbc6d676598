import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { CHART, installChart } from "./control-plane.ts";
import type { InstalledChart } from "./control-plane.ts";

const TIMEOUT = { timeout: 120_000 };
const CRD = "crd/mountpoints3podattachments.s3.csi.scality.com";
const PAGE = join(import.meta.dirname, "../../docs/attachments.md");
const NAME = "s3pa-worker1-my-s3-pv-abc123";
const ATTACHMENT = {
  apiVersion: "s3.csi.scality.com/v2",
  kind: "MountpointS3PodAttachment",
  metadata: { name: NAME },
  spec: {
    nodeName: "worker-1",
    persistentVolumeName: "my-s3-pv",
    volumeID: "csi-s3-12345678-abcd-1234-abcd-123456789012",
    mountOptions: "--read-only,--cache /tmp/cache",
    workloadFSGroup: "1000",
    mountpointS3PodAttachments: {
      "mp-pod-xyz789": [
        { workloadPodUID: "abc-123-def-456", attachmentTime: "2024-01-15T10:30:00Z" },
        { workloadPodUID: "ghi-789-jkl-012", attachmentTime: "2024-01-15T10:35:00Z" },
      ],
    },
  },
};
const { mountpointS3PodAttachments: _map, ...SCALARS } = ATTACHMENT.spec;

const owned = new AsyncDisposableStack();
let chart: InstalledChart;
let dir: string;

before(async () => {
  chart = owned.use(await installChart());
  dir = mkdtempSync(join(tmpdir(), "s3csi-crd-"));
  owned.defer(() => rmSync(dir, { recursive: true }));
  const other = { ...ATTACHMENT, metadata: { name: "other" }, spec: { ...ATTACHMENT.spec } };
  for (const field of Object.keys(SCALARS)) Object.assign(other.spec, { [field]: "0" });
  const list = { apiVersion: "v1", kind: "List", items: [ATTACHMENT, other] };
  const file = join(dir, "attachments.json");
  writeFileSync(file, JSON.stringify(list));
  await chart.kubectl("apply", "-f", file);
}, TIMEOUT);
after(() => owned.disposeAsync());

const linesOf = (printed: string) => printed.trimEnd().split("\n");
const column = (printed: string) => linesOf(printed).map((line) => line.split(/\s+/)[0]);

test("the commands of docs/attachments.md work as written", TIMEOUT, async () => {
  const [, block = ""] = /```bash\n([^]*?)```/.exec(readFileSync(PAGE, "utf8")) ?? [];
  const commands = linesOf(block).map((line) => line.replace("NAME", NAME).split(" "));
  const printed = new Map<string, string>();
  for (const [program, ...words] of commands) {
    assert.equal(program, "kubectl");
    printed.set(words.join(" "), await chart.kubectl(...words));
  }
  const of = (command: string) => printed.get(command) ?? assert.fail(`no ${command} on the page`);
  const all = of("get s3pa");
  assert.match(all, /^NAME +NODE +PV NAME +MOUNT OPTIONS +AGE\n/);
  assert.match(all, /abc123 +worker-1 +my-s3-pv +--read-only,--cache \/tmp\/cache +\d+s\n/);
  assert.match(of("get s3pa --output wide"), /^NAME +NODE .* +PHASE +PROBLEM +AGE\n/);
  const selected = Array.from(printed).filter(([command]) => command.includes("--field-selector"));
  assert.equal(selected.length, 3);
  for (const [command, found] of selected) assert.deepEqual(column(found), ["NAME", NAME], command);
  const described = of(`describe s3pa ${NAME}`);
  assert.match(described, /Persistent Volume Name: +my-s3-pv\n/);
  assert.match(described, /Workload Pod UID: +abc-123-def-456\n/);
  const yaml = of(`get s3pa ${NAME} -o yaml`);
  assert.match(yaml, /^ {2}workloadFSGroup: "1000"$/m);
  assert.match(yaml, /^ {4}- attachmentTime: "2024-01-15T10:35:00Z"$/m);
});

test("every scalar field can be selected by kubectl too", TIMEOUT, async () => {
  for (const [field, value] of Object.entries(SCALARS)) {
    // A comma stands between selectors, and one in a value is written with a backslash.
    const selector = `spec.${field}=${value.replaceAll(",", "\\,")}`;
    const found = await chart.kubectl("get", "s3pa", "--field-selector", selector);
    assert.deepEqual(column(found), ["NAME", NAME], selector);
  }
});

test("what can't be an attachment is refused, with the field's name", TIMEOUT, async () => {
  const refusedFor = async (spec: object, words: RegExp) => {
    const file = join(dir, "wrong.json");
    writeFileSync(file, JSON.stringify({ ...ATTACHMENT, metadata: { name: "wrong" }, spec }));
    await assert.rejects(chart.kubectl("apply", "-f", file), words);
  };
  const { volumeID: _, ...without } = ATTACHMENT.spec;
  await refusedFor(without, /spec.volumeID: Required/);
  await refusedFor({ ...ATTACHMENT.spec, workloadFSGroup: 1000 }, /spec.workloadFSGroup/);
});

test("the CRD is upgraded with the chart, back too, and attachments stay", TIMEOUT, async () => {
  const next = join(dir, "chart");
  cpSync(CHART, next, { recursive: true });
  const file = join(next, "templates/crd.yaml");
  const crd = readFileSync(file, "utf8");
  const added = crd.replace(
    "- name: Phase",
    "- name: Handle\n          type: string\n          jsonPath: .spec.volumeID\n        - name: Phase",
  );
  assert.notEqual(added, crd);
  writeFileSync(file, added);
  const columns = () =>
    chart.kubectl("get", CRD, "-o", "jsonpath={..additionalPrinterColumns[*].name}");
  await chart.helm("upgrade", "s3csi", next);
  assert.match(await columns(), /Mount Options Handle Phase/);
  await chart.helm("upgrade", "s3csi", CHART);
  assert.match(await columns(), /Mount Options Phase/);
  await chart.kubectl("get", "s3pa", NAME);
});

test("the namespace stays when somebody else is to look after it", TIMEOUT, async () => {
  await chart.helm("upgrade", "s3csi", CHART, "--set", "mountpointPod.createNamespace=false");
  const phase = () => chart.kubectl("get", "namespace", "mount-s3", "-o", "jsonpath={..phase}");
  assert.equal(await phase(), "Active");
  await chart.helm("upgrade", "s3csi", CHART);
  assert.equal(await phase(), "Active");
});

test("the CRD outlives the release, and the next one takes it over", TIMEOUT, async () => {
  await chart.helm("uninstall", "s3csi", "--wait");
  await chart.kubectl("get", "s3pa", NAME);
  await chart.helm("install", "s3csi", CHART);
  await chart.kubectl("get", "s3pa", NAME);
  await chart.helm("upgrade", "s3csi", CHART, "--set", "crd.keep=false");
  await chart.helm("uninstall", "s3csi", "--wait");
  await chart.kubectl("wait", CRD, "--for=delete", "--timeout=60s");
});

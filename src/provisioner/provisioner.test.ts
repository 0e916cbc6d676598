import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure, RetryLaterFailure, UnfinishedFailure } from "../base/failure.ts";
import { createLog } from "../base/pino-log.ts";
import { volumeUuidOf } from "../volume/volume-handle.ts";
import type { Cluster } from "./cluster.ts";
import type { Claim, Class, Volume } from "./facts.ts";
import { Provisioner } from "./provisioner.ts";
import type { Driver } from "./provisioner.ts";
import { CLAIM, CLASS, VOLUME } from "./test-objects.ts";

const log = createLog("error", {});
log.level = "silent";
const signal = AbortSignal.timeout(30_000);
const BUCKET = `csi-s3-${volumeUuidOf("pvc-u-1")}`;
const PREFIX = `shared/${volumeUuidOf("pvc-u-1")}/`;
const ADMIN = { namespace: "kube-system", name: "admin" };
const TENANT = { namespace: "team", name: "keys" };
const KEYS = { access_key_id: "id", secret_access_key: "key" };
const going: Claim = { ...CLAIM, isHeld: true, isTerminating: true };
const note = { volume: BUCKET, secret: undefined };
const withSecret = (parameters: Record<string, string> = {}): Class => ({
  ...CLASS,
  parameters: {
    "csi.storage.k8s.io/provisioner-secret-name": ADMIN.name,
    "csi.storage.k8s.io/provisioner-secret-namespace": ADMIN.namespace,
    ...parameters,
  },
});

const by = (secrets: object) => ("access_key_id" in secrets ? "a Secret's keys" : "own keys");
const refuses = (why: string) => () => Promise.reject(new Failure("denied", why));

/** Everything works, is written down, and fails where the test says. */
function world(given: Partial<Cluster & Driver> & { secrets?: readonly string[] } = {}) {
  const did: string[] = [];
  const events: string[] = [];
  const done =
    (what: string) =>
    async (subject: object): Promise<void> =>
      void did.push(`${what} ${"handle" in subject ? "PV" : "claim"}`);
  const cluster: Cluster = {
    findVolume: async () => RELEASED,
    hasVolume: async () => false,
    readSecret: async ({ namespace, name }) =>
      given.secrets?.includes(`${namespace}/${name}`) === true ? KEYS : undefined,
    addClaimFinalizer: async (_, { volume }) => void did.push(`hold ${volume}`),
    removeClaimFinalizer: done("let go"),
    createVolume: async () => void did.push("create PV"),
    protectVolume: done("protect"),
    unprotectVolume: done("unprotect"),
    deleteVolume: done("delete"),
    ...given,
  };
  const gone = { kept: undefined };
  const driver: Driver = {
    handleOf: () => BUCKET,
    unusableParameters: ({ parameters }) =>
      new Map("foo" in parameters ? [["foo", "foo is not known"]] : []),
    create: async () => ({ volumeId: BUCKET, volumeContext: {}, topology: [] }),
    async discard({ volumeId, name, secrets }) {
      did.push(`discard ${volumeId} of ${name} with ${by(secrets)}`);
      return gone;
    },
    async delete({ volumeId, secrets }) {
      did.push(`delete ${volumeId} with ${by(secrets)}`);
      return gone;
    },
    ...given,
  };
  const tell = (_: object, _type: string, reason: string, text: string) =>
    void events.push(`${reason}: ${text}`);
  const provisioner = new Provisioner({
    cluster,
    driver,
    installedMs: CLASS.createdMs,
    log,
    events: { claim: tell, volume: tell },
  });
  return { did, events, provisioner };
}

const discarded = (place: string, whose: string) => [
  `discard ${place} of pvc-u-1 with ${whose}`,
  "let go claim",
];

interface Going {
  readonly note: Claim["note"];
  readonly storageClass?: Class;
  readonly secrets?: readonly string[];
  readonly did: readonly string[];
  readonly event?: RegExp;
}
// prettier-ignore
const lettings: [name: string, going: Going][] = [
  ["its class is gone",            { note, did: discarded(BUCKET, "own keys") }],
  ["its class is another one",     { note, storageClass: withSecret(), did: discarded(BUCKET, "own keys") }],
  ["its Secret is there",          { note: { ...note, secret: TENANT }, secrets: ["team/keys"], did: discarded(BUCKET, "a Secret's keys") }],
  ["its Secret is gone",           { note: { ...note, secret: TENANT }, did: ["let go claim"], event: new RegExp(`^BucketMayBeLeft: bucket ${BUCKET} may be left: the Secret team/keys, .* is gone$`) }],
  ["an administrator's is gone",   { note: { ...note, secret: ADMIN }, storageClass: withSecret(), did: ["let go claim"], event: /may be left: the Secret kube-system\/admin/ }],
  ["so is the class that named it", { note: { ...note, secret: ADMIN }, did: ["let go claim"], event: /may be left: the controller's log tells why$/ }],
  ["another class names another",  { note: { ...note, secret: ADMIN }, storageClass: CLASS, secrets: ["kube-system/admin"], did: discarded(BUCKET, "a Secret's keys") }],
  ["it is a prefix",               { note: { volume: PREFIX, secret: TENANT }, did: ["let go claim"] }],
  ["so is one to be emptied",      { note: { volume: `${PREFIX}#delete`, secret: TENANT }, did: ["let go claim"] }],
  ["it has lost its note",         { note: undefined, storageClass: CLASS, did: ["let go claim"], event: /^BucketMayBeLeft: the claim has lost its note: .*…[0-9a-f-]{36}, it is left/ }],
];
for (const [name, { did, event, storageClass, ...given }] of lettings) {
  test(`a claim that was begun is deleted, ${name}: it is let go`, async () => {
    const all = world(given.secrets === undefined ? {} : { secrets: given.secrets });
    const claim = { ...going, note: given.note };
    await all.provisioner.handleClaim(claim, storageClass, undefined, signal);
    assert.deepEqual(all.did, did);
    assert.equal(all.events.length, event === undefined ? 0 : 1);
    if (event !== undefined) assert.match(all.events[0] ?? "", event);
  });
}

test("a Secret that may not be read any more is as good as gone", async () => {
  const { provisioner, did, events } = world({ readSecret: refuses("secrets is forbidden") });
  const claim = { ...going, note: { ...note, secret: TENANT } };
  await provisioner.handleClaim(claim, undefined, undefined, signal);
  assert.deepEqual(did, ["let go claim"]);
  assert.match(events.join(), /BucketMayBeLeft/);
});

test("what S3 says about a Secret that only the note names is not told to the tenant", async () => {
  const discard = refuses("HTTP 403 by kube-system/admin");
  const { provisioner, events } = world({ discard, secrets: ["kube-system/admin"] });
  const claim = { ...going, note: { ...note, secret: ADMIN } };
  const work = provisioner.handleClaim(claim, undefined, undefined, signal);
  await assert.rejects(work, { kind: "denied" });
  assert.deepEqual(events, [
    `ProvisioningFailed: cleanup of unfinished bucket ${BUCKET} failed: the controller's log says why`,
  ]);
});

const OLD = `old-${volumeUuidOf("pvc-u-1")}`;
const begun: Claim = { ...CLAIM, isHeld: true, note: { volume: OLD, secret: TENANT } };

test("a class that has changed: what was begun goes before the next is made", async () => {
  const { provisioner, did } = world({ secrets: ["team/keys"] });
  await provisioner.handleClaim(begun, CLASS, undefined, signal);
  const taken = `discard ${OLD} of pvc-u-1 with a Secret's keys`;
  assert.deepEqual(did, [`hold ${OLD}`, taken, `hold ${BUCKET}`, "create PV"]);
});

test("a class that has changed, and the old keys are gone: told, and nothing is made", async () => {
  const { provisioner, did, events } = world();
  const work = provisioner.handleClaim(begun, CLASS, undefined, signal);
  await assert.rejects(work, { kind: "absent" });
  assert.deepEqual(did, [`hold ${OLD}`]);
  assert.match(events.join(), /s3 has changed since old-.* team\/keys, .*gone; give it back, or/);
});

for (const [what, given] of [
  ["the claim", { addClaimFinalizer: () => Promise.reject(new Failure("stale", "changed")) }],
  ["the PVs", { hasVolume: async () => true }],
] as const) {
  test(`nothing is cleaned up by a stale cache of ${what}`, async () => {
    const { provisioner, did, events } = world({ ...given, secrets: ["team/keys"] });
    const work = provisioner.handleClaim(begun, CLASS, undefined, signal);
    await assert.rejects(work, { kind: "stale" });
    assert.deepEqual([did.filter((one) => !one.startsWith("hold")), events], [[], []]);
  });
}

const RELEASED: Volume = { ...VOLUME, phase: "Released", handle: BUCKET };
const NAME = "volume.kubernetes.io/provisioner-deletion-secret-name";
const half = { of: "half", set: NAME, missing: `${NAME}space` } as const;
const deleted = (whose: string) => [`delete ${BUCKET} with ${whose}`, "delete PV", "unprotect PV"];

// prettier-ignore
const deletions: [name: string, volume: Partial<Volume>, storageClass: Class | undefined, outcome: readonly string[] | RegExp][] = [
  ["the driver's keys, as it tells",  { deletionKeys: { of: "driver" } },                   withSecret(), deleted("own keys")],
  ["a Secret's, as it tells",         { deletionKeys: { of: "secret", secret: TENANT } },   undefined,    deleted("a Secret's keys")],
  ["half a pair",                     { deletionKeys: half },                               CLASS,        /^VolumeFailedDelete: the PV's annotation \S+-name is set, yet not \S+-namespace: both/],
  ["untold, its class has no Secret", { deletionKeys: { of: "untold" } },                   CLASS,        deleted("own keys")],
  ["untold, its class has one",       { deletionKeys: { of: "untold" } },                   withSecret(), /StorageClass s3 names a provisioner Secret, and the PV does not tell .*: annotate it with \S+-name and \S+-namespace/],
  ["untold, its class is gone",       { deletionKeys: { of: "untold" } },                   undefined,    /StorageClass s3 is gone, and the PV does not tell/],
  ["a retained prefix needs no keys", { deletionKeys: half, handle: PREFIX },               CLASS,        [`delete ${PREFIX} with own keys`, "delete PV", "unprotect PV"]],
];
for (const [name, volume, storageClass, outcome] of deletions) {
  test(`a volume is deleted with ${name}`, async () => {
    const seen = { ...RELEASED, ...volume };
    const all = world({ findVolume: async () => seen, secrets: ["team/keys"] });
    const work = all.provisioner.handleVolume(seen, storageClass, signal);
    if (outcome instanceof RegExp) {
      await assert.rejects(work, { kind: "invalid" });
      assert.match(all.events.join(), outcome);
    } else await work;
    assert.deepEqual(all.did, outcome instanceof RegExp ? [] : outcome);
  });
}

// prettier-ignore
const older: [name: string, parameters: Record<string, string>, outcome: readonly string[] | RegExp][] = [
  ["nothing of its own",            withSecret().parameters,                              []],
  ["one that was ignored",          { foo: "bar" },                                       ["foo is not known"]],
  ["a Secret of no use",            { "csi.storage.k8s.io/node-stage-secret-name": "x" }, ['StorageClass parameter csi.storage.k8s.io/node-stage-secret-name is "x": of no use here']],
  ["an unknown one of Kubernetes",  { "csi.storage.k8s.io/x": "y" },                      /csi.storage.k8s.io\/x is "y": not known/],
];
for (const [name, parameters, outcome] of older) {
  test(`a class that is older than the driver, with ${name}`, async () => {
    const { provisioner, did, events } = world({ secrets: ["kube-system/admin"] });
    const storageClass = { ...CLASS, createdMs: CLASS.createdMs - 1_000, parameters };
    const work = provisioner.handleClaim(CLAIM, storageClass, undefined, signal);
    if (outcome instanceof RegExp) {
      await assert.rejects(work, { kind: "invalid", message: outcome });
      assert.deepEqual(did, []);
      return;
    }
    await work;
    assert.equal(did.at(-1), "create PV");
    const advice = "ignored, since StorageClass s3 is older than this driver";
    assert.deepEqual(
      events.filter((event) => event.startsWith("ParameterIgnored: ")),
      outcome.map((why) => `ParameterIgnored: ${why}; ${advice}`),
    );
  });
}

const more = () => Promise.reject(new UnfinishedFailure("bucket b is being emptied"));

test("a bucket that is emptied call by call: told as progress, and gone on with soon", async () => {
  const { provisioner, did, events } = world({ delete: more });
  const again = await provisioner.handleVolume(RELEASED, CLASS, signal);
  assert(typeof again === "object" && again.stepAfterMs > 0);
  assert.deepEqual(events, ["DeletionInProgress: bucket b is being emptied"]);
  assert.deepEqual(did, [], "the PV stays until its bucket is gone");
});

const busy = () => Promise.reject(new Failure("busy", "too many requests"));

test("an API server that is busy is a failure like any other, and no progress", async () => {
  const { provisioner, events } = world({ delete: busy });
  await assert.rejects(provisioner.handleVolume(RELEASED, CLASS, signal), { kind: "busy" });
  assert.deepEqual(events, ["VolumeFailedDelete: too many requests"]);
});

test("a deletion that is refused for long is tried again when its failure says so", async () => {
  const locked = new RetryLaterFailure("denied", "k1 and 7 more: AccessDenied", 1_800_000);
  const { provisioner, did, events } = world({ delete: () => Promise.reject(locked) });
  assert.equal(await provisioner.handleVolume(RELEASED, CLASS, signal), 1_800_000);
  assert.deepEqual(events, [
    "VolumeFailedDelete: k1 and 7 more: AccessDenied; " +
      "the next attempt is in 30 minutes, or at once when the PV changes",
  ]);
  assert.deepEqual(did, [], "the PV stays until its bucket is gone");
});

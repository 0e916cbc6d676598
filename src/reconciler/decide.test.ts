import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attachments, MountIds } from "../volume/attachment.ts";
import { mountIdOf } from "../volume/engine.ts";
import type { Engine } from "../volume/engine.ts";
import { mountpointPodNameOf } from "../volume/names.ts";
import { decide } from "./decide.ts";
import type { Action } from "./action.ts";
import type { Observed } from "./observed.ts";
import type { Attachment, MountpointPod, NodeFacts, Workload } from "./facts.ts";
import type { Place } from "./namespace-limit.ts";
import { TEST_POD, TEST_WORKLOAD } from "./test-facts.ts";

const nowMs = Date.parse("2026-01-01T12:00:00Z");
const TIME = "2026-01-01T11:00:00.000Z"; // long ago
const NOW = "2026-01-01T12:00:00.000Z";

const key = {
  nodeName: "n1",
  persistentVolumeName: "pv",
  volumeID: "v",
  mountOptions: "",
  workloadFSGroup: "",
  authenticationSource: "driver",
  workloadNamespace: "",
  workloadServiceAccountName: "",
};
const workload = (uid: string): Workload => ({ ...TEST_WORKLOAD, uid, name: uid });
const MP0 = mountpointPodNameOf("w1", "pv");
const MP1 = mountpointPodNameOf("w1", "pv", 1);
const MP2 = mountpointPodNameOf("w1", "pv", 2);
const OTHER0 = mountpointPodNameOf("w2", "pv");
const OTHER1 = mountpointPodNameOf("w2", "pv", 1);
const NEW = mountpointPodNameOf("w3", "pv");
/** The successor of the first mount when nobody knows any more which workload it was for. */
const HEIR = mountpointPodNameOf(MP0, "pv", 1);
/** The mounts of those that mount-s3 serves. */
const [MS0, MS1, MS2] = [MP0, MP1, MP2].map((name) => mountIdOf(name, "mount-s3")) as [
  string,
  string,
  string,
];
const UP: NodeFacts = { name: "n1", ready: true, ending: false };
const pod = (fields: Partial<MountpointPod> = {}): MountpointPod => ({
  ...TEST_POD,
  name: MP0,
  createdMs: nowMs - 3_600_000,
  mountId: fields.name ?? MP0,
  ...fields,
});
const young = { createdMs: nowMs - 400 };
const entries = (uids: string[], attachmentTime = TIME) =>
  uids.map((workloadPodUID) => ({ workloadPodUID, attachmentTime }));
const attachment = (lists: Record<string, string[]>, mountIDs?: MountIds): Attachment => {
  const listed = Object.entries(lists).map(([name, uids]) => [name, entries(uids)] as const);
  const attachments: Attachments = Object.fromEntries(listed);
  const spec = { ...key, mountpointS3PodAttachments: attachments, ...(mountIDs && { mountIDs }) };
  return { name: "s3pa-1", uid: "a", resourceVersion: "1", spec };
};

interface Scene {
  readonly listed?: Record<string, string[]>;
  readonly wanting?: string[];
  /** Of those, and of those who leave: the volumes of these are published. */
  readonly started?: string[];
  /** By workload: the mount, and the pod if it has another name. */
  readonly lastMounts?: Record<string, [mountId: string, podName?: string]>;
  /** Pods that can't start, with settings that have changed since. */
  readonly outdated?: string[];
  /** Mountpoint Pods of another driver. */
  readonly foreign?: string[];
  readonly gone?: string[];
  readonly leaving?: string[];
  readonly pods?: MountpointPod[];
  readonly mounts?: MountIds;
  readonly node?: NodeFacts | null;
  readonly engine?: Engine;
  /** The limit of the namespace allows a new pod, sharing (for all or some), or nothing. */
  readonly limit?: "room" | "share" | "full" | readonly string[];
}

function placeWith(limit: NonNullable<Scene["limit"]>, uids: readonly string[]): Place {
  const admitted = new Set(typeof limit !== "string" ? limit : limit === "full" ? [] : uids);
  const rest = { taken: 2, tooLarge: new Map(), mayCreate: limit === "room" };
  return { namespace: "ns", limit: 2, admitted, ...rest };
}

function act(scene: Scene): string[] {
  const { listed, wanting = [], gone = [], leaving = [], pods = [], mounts, node } = scene;
  const { engine = "s3csi", started = [], lastMounts = {}, outdated = [], foreign = [] } = scene;
  const seen: Observed = {
    name: "s3pa-1",
    key,
    attachment: listed === undefined ? undefined : attachment(listed, mounts),
    attributes: {},
    remembered: new Map(),
    bound: new Set(started),
    outdated: new Set(outdated),
    foreign: new Set(foreign),
    lastMounts: new Map(
      Object.entries(lastMounts).map(([uid, [mountId, podName = mountId]]) => {
        return [uid, { mountId, podName }];
      }),
    ),
    node: node === null ? undefined : (node ?? UP),
    wanting: wanting.map(workload),
    gone: new Set(gone),
    leaving: new Set(leaving),
    pods: new Map(pods.map((one) => [one.name, one])),
    driverVersion: "1",
    engine,
    nowMs,
    ...(scene.limit && { place: placeWith(scene.limit, wanting) }),
  };
  const actions = decide(seen).filter((action) => action.do !== "write-status"); // its own test
  return actions.map(wordOf);
}

const SHORT: Record<string, string> = {
  [MP0]: "mp0",
  [MP1]: "mp1",
  [MP2]: "mp2",
  [OTHER0]: "other0",
  [OTHER1]: "other1",
  [HEIR]: "heir",
  [NEW]: "new",
  [MS0]: "ms0",
  [MS1]: "ms1",
  [MS2]: "ms2",
};
const shortOf = (name: string) => SHORT[name] ?? "mp?";

/** Short words, so that the table can be read. */
function wordOf(action: Action): string {
  if (action.do === "create-pod") {
    const { name, mountId } = action.pod;
    return `create-pod ${shortOf(name)}${mountId === name ? "" : ` for ${shortOf(mountId)}`}`;
  }
  if ("pod" in action) return `${action.do} ${shortOf(action.pod.name)}`;
  if ("lists" in action) {
    const { attachments, mountIds } = action.lists;
    const lists = Object.entries(attachments).map(([name, list]) => {
      const mount = mountIds[name] === undefined ? "" : `(${shortOf(mountIds[name])})`;
      return `${shortOf(name)}${mount}:${list.map((entry) => entry.workloadPodUID).join("+")}`;
    });
    return `${action.do} ${lists.join(" ")}`;
  }
  if (action.do === "hold-back") {
    return `hold-back ${action.workloads.map(({ uid }) => uid).join("+")}`;
  }
  return "afterMs" in action ? `${action.do} ${action.afterMs}` : action.do;
}

// prettier-ignore
const cases: [name: string, scene: Scene, want: string[]][] = [
  ["nothing is there: nothing to do",          {},                                                       []],
  ["the first workload: pod, then attachment", { wanting: ["w1"] },                                      ["create-pod mp0", "create-attachment mp0:w1"]],
  ["a crash left the pod: it is used",         { wanting: ["w1"], pods: [pod()] },                       ["create-attachment mp0:w1"]],
  ["two at once share",                        { wanting: ["w2", "w1"] },                                ["create-pod mp0", "create-attachment mp0:w1+w2"]],
  ["a served workload needs nothing",          { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod()] }, []],
  ["a second joins",                           { listed: { [MP0]: ["w1"] }, wanting: ["w1", "w2"], pods: [pod()] }, ["update-attachment mp0:w1+w2"]],
  ["the last leaves: attachment, then mark",    { listed: { [MP0]: ["w1"] }, gone: ["w1"], pods: [pod()] }, ["delete-attachment", "mark-pod mp0"]],
  ["last out, next in: the pod stays",         { listed: { [MP0]: ["w1"] }, gone: ["w1"], wanting: ["w2"], pods: [pod()] }, ["update-attachment mp0:w2"]],
  ["an empty list: drop, then mark",           { listed: { [MP0]: [] }, pods: [pod()] },                 ["delete-attachment", "mark-pod mp0"]],
  ["nobody joins an empty list",               { listed: { [MP0]: [] }, wanting: ["w1"], pods: [pod()] }, ["create-pod mp1", "update-attachment mp1:w1", "mark-pod mp0"]],
  ["a marked pod only leaves the list",        { listed: { [MP0]: [] }, pods: [pod({ needsUnmount: true })] }, ["delete-attachment"]],
  ["a marked pod is waited for",               { pods: [pod({ needsUnmount: true })] },                  []],
  ["for a limited time",                       { pods: [pod({ needsUnmount: true, markedMs: nowMs - 29 * 60_000 })] }, ["look-again 60000"]],
  ["then it is deleted",                       { pods: [pod({ needsUnmount: true, markedMs: nowMs - 30 * 60_000 })] }, ["delete-pod mp0"]],
  ["a finished pod is cleared away",           { pods: [pod({ needsUnmount: true, finished: true })] },  ["delete-pod mp0"]],
  ["one that is deleted already: wait for it", { pods: [pod({ finished: true, terminating: true, goneByMs: nowMs + 400 })] }, ["look-again 400"]],
  ["not for ever",                             { pods: [pod({ finished: true, terminating: true, goneByMs: nowMs })] }, ["delete-pod mp0"]],
  ["nor is one deleted that still runs",       { pods: [pod({ needsUnmount: true, terminating: true, goneByMs: nowMs })] }, []],
  ["the last leaves a terminating pod: mark",  { listed: { [MP0]: ["w1"] }, gone: ["w1"], pods: [pod({ terminating: true })] }, ["delete-attachment", "mark-pod mp0"]],
  ["a terminating pod with workloads: wait",   { listed: { [MP0]: ["w1"] }, leaving: ["w1"], pods: [pod({ terminating: true })] }, []],
  ["an unused terminating pod is let go",      { pods: [pod({ terminating: true })] },                   ["mark-pod mp0"]],
  ["not if its mount is another's by now",     { listed: { [MP1]: ["w1"] }, wanting: ["w1"], pods: [pod({ terminating: true }), pod({ name: MP1, mountId: MP0, generation: 1 })] }, []],
  ["a marked pod that no node ever had goes",  { pods: [pod({ needsUnmount: true, scheduled: false, started: false, ...young })] }, ["delete-pod mp0"]],
  ["one that starts gets its time",            { pods: [pod({ needsUnmount: true, started: false, ...young })] }, ["look-again 119600"]],
  ["one that can not start goes",              { pods: [pod({ needsUnmount: true, started: false })] },  ["delete-pod mp0"]],
  ["an unused pod is let go",                  { pods: [pod()] },                                        ["mark-pod mp0"]],
  ["an unused young pod gets a moment",        { pods: [pod(young)] },                                   ["look-again 29600"]],
  ["but not when its workload is gone",        { gone: ["w1"], pods: [pod(young)] },                     ["mark-pod mp0"]],
  ["nobody joins a drained pod",               { listed: { [MP0]: ["w0"] }, wanting: ["w1"], pods: [pod({ noNewWorkload: true })] }, ["create-pod mp1", "update-attachment mp0:w0 mp1:w1"]],
  ["nor one of another version",               { listed: { [MP0]: ["w0"] }, wanting: ["w1"], pods: [pod({ driverVersion: "2" })] }, ["create-pod mp1", "update-attachment mp0:w0 mp1:w1"]],
  ["a failed pod has a successor",             { listed: { [MP0]: ["w1", "w2"] }, wanting: ["w1", "w2"], pods: [pod({ finished: true })] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1+w2"]],
  ["a terminating pod too",                    { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ terminating: true })] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
  ["a vanished pod too",                       { listed: { [MP0]: ["w1"] }, wanting: ["w1"] },           ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
  ["one in a crash loop too",                  { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ backingOff: true })] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
  ["a pod marked in use too",                  { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ needsUnmount: true })] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
  ["a successor's successor: the first mount", { listed: { [MP1]: ["w1"] }, wanting: ["w1"], pods: [pod({ name: MP1, generation: 1, mountId: MP0, finished: true })] }, ["create-pod mp2 for mp0", "update-attachment mp2(mp0):w1"]],
  ["also when it has vanished",                { listed: { [MP1]: ["w1"] }, mounts: { [MP1]: MP0 }, wanting: ["w1"] }, ["create-pod mp2 for mp0", "update-attachment mp2(mp0):w1"]],
  ["and with it who it was made for",          { listed: { [MP0]: ["w2"] }, wanting: ["w2"] },           ["create-pod heir for mp0", "update-attachment heir(mp0):w2"]],
  ["unless the attachment still names him",    { listed: { [MP0]: ["w1", "w2"] }, gone: ["w1"], wanting: ["w2"] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w2"]],
  ["two lost pods, two successors",            { listed: { [MP0]: ["w1"], [OTHER0]: ["w2"] }, wanting: ["w1", "w2"], pods: [pod({ finished: true })] }, ["create-pod mp1 for mp0", "create-pod other1 for other0", "update-attachment mp1(mp0):w1 other1(other0):w2"]],
  ["a good pod does not take in a lost mount", { listed: { [MP0]: ["w1"], [OTHER0]: ["w2"] }, wanting: ["w1", "w2"], pods: [pod(), pod({ name: OTHER0, workloadUid: "w2", finished: true })] }, ["create-pod other1 for other0", "update-attachment mp0:w1 other1(other0):w2"]],
  ["a newcomer joins the successor",           { listed: { [MP0]: ["w1"] }, wanting: ["w1", "w3"], pods: [pod({ finished: true })] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1+w3"]],
  ["but does not wait for one",                { listed: { [MP0]: ["w1"] }, wanting: ["w1", "w3"], pods: [pod({ finished: true, ...young })] }, ["look-again 600", "create-pod new", "update-attachment mp0:w1 new:w3"]],
  ["nobody joins a crash loop",                { listed: { [MP0]: ["w1"] }, wanting: ["w1", "w3"], pods: [pod({ backingOff: true, ...young })] }, ["look-again 600", "create-pod new", "update-attachment mp0:w1 new:w3"]],
  ["a name that is a mount elsewhere: the next", { listed: { [MP1]: ["w2"] }, wanting: ["w1", "w2"], pods: [pod({ name: MP1, generation: 1, mountId: MP0, noNewWorkload: true })] }, ["create-pod mp2", "update-attachment mp1(mp0):w2 mp2:w1"]],
  ["also when only the attachment knows",      { listed: { [MP1]: ["w2"] }, mounts: { [MP1]: MP0 }, node: null, wanting: ["w1", "w2"] }, ["create-pod mp2", "update-attachment mp1(mp0):w2 mp2:w1"]],
  ["also when a crash left a pod of that name", { listed: { [MP1]: ["w2"] }, wanting: ["w1", "w2"], pods: [pod(), pod({ name: MP1, generation: 1, mountId: MP0, noNewWorkload: true })] }, ["create-pod mp2", "update-attachment mp1(mp0):w2 mp2:w1", "delete-pod mp0"]],
  ["a crash left the successor: it is used",   { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ finished: true, ...young }), pod({ name: MP1, generation: 1, mountId: MP0 })] }, ["update-attachment mp1(mp0):w1"]],
  ["not one that serves another mount",        { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ finished: true }), pod({ name: MP1, generation: 1, ...young })] }, ["create-pod mp2 for mp0", "update-attachment mp2(mp0):w1", "look-again 29600"]],
  ["the replaced one goes, and is not marked", { listed: { [MP1]: ["w1"] }, mounts: { [MP1]: MP0 }, wanting: ["w1"], pods: [pod({ backingOff: true }), pod({ name: MP1, generation: 1, mountId: MP0, ...young })] }, ["delete-pod mp0"]],
  ["also when it was marked",                  { listed: { [MP1]: ["w1"] }, mounts: { [MP1]: MP0 }, wanting: ["w1"], pods: [pod({ needsUnmount: true }), pod({ name: MP1, generation: 1, mountId: MP0, ...young })] }, ["delete-pod mp0"]],
  ["a newer one may be about to be listed",    { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod(), pod({ name: MP1, generation: 1, mountId: MP0, ...young })] }, ["look-again 29600"]],
  ["if it is not, it goes",                    { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod(), pod({ name: MP1, generation: 1, mountId: MP0 })] }, ["delete-pod mp1"]],
  ["a marked pod in a crash loop goes",        { pods: [pod({ needsUnmount: true, backingOff: true })] }, ["delete-pod mp0"]],
  ["a successor waits its time",               { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ finished: true, ...young })] }, ["look-again 600"]],
  ["longer in a later generation",             { listed: { [MP1]: ["w1"] }, wanting: ["w1"], pods: [pod({ name: MP1, generation: 1, finished: true, ...young })] }, ["look-again 1600"]],
  ["never longer than five minutes",           { listed: { [MP1]: ["w1"] }, wanting: ["w1"], pods: [pod({ name: MP1, generation: 50, finished: true, ...young })] }, ["look-again 299600"]],
  ["none for workloads that all leave",        { listed: { [MP0]: ["w1"] }, leaving: ["w1"], pods: [pod({ finished: true })] }, []],
  ["leaving ones move with one that stays",    { listed: { [MP0]: ["w0", "w1"] }, wanting: ["w1"], leaving: ["w0"], pods: [pod({ finished: true })] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w0+w1"]],
  ["none on a node that was deleted",          { node: null, listed: { [MP0]: ["w1"] }, wanting: ["w1"] },  []],
  ["none on a node that is switched off",      { node: { ...UP, ending: true }, listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ finished: true })] }, []],
  ["none on a node that shuts down",           { node: { ...UP, ready: false }, listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ finished: true, shutDown: true })] }, []],
  ["but when it is back",                      { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ finished: true, shutDown: true })] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
  ["the other engine: its mount says so",      { engine: "mount-s3", wanting: ["w1"] },                  ["create-pod mp0 for ms0", "create-attachment mp0(ms0):w1"]],
  ["a crash left the pod: it is used too",     { engine: "mount-s3", wanting: ["w1"], pods: [pod({ mountId: MS0 })] }, ["create-attachment mp0(ms0):w1"]],
  ["a second joins there too",                 { engine: "mount-s3", listed: { [MP0]: ["w1"] }, wanting: ["w1", "w2"], pods: [pod({ mountId: MS0 })] }, ["update-attachment mp0(ms0):w1+w2"]],
  ["nobody joins a pod of another engine",     { engine: "mount-s3", listed: { [MP0]: ["w0"] }, wanting: ["w1"], pods: [pod()] }, ["create-pod mp1 for ms1", "update-attachment mp0:w0 mp1(ms1):w1"]],
  ["nor the other way round",                  { listed: { [MP0]: ["w0"] }, wanting: ["w1"], pods: [pod({ mountId: MS0 })] }, ["create-pod mp1", "update-attachment mp0(ms0):w0 mp1:w1"]],
  ["a mount of ours keeps its engine",         { engine: "mount-s3", listed: { [MP0]: ["w1"] }, wanting: ["w1"] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
  ["and a newcomer does not join that",        { engine: "mount-s3", listed: { [MP0]: ["w1"] }, wanting: ["w1", "w3"] }, ["create-pod mp1 for mp0", "create-pod new for mp?", "update-attachment mp1(mp0):w1 new(mp?):w3"]],
  ["one that can't be followed: another mount", { engine: "mount-s3", listed: { [MP0]: ["w1"] }, wanting: ["w1", "w3"], pods: [pod({ mountId: MS0, terminating: true })] }, ["create-pod mp1 for ms1", "update-attachment mp1(ms1):w1+w3"]],
  ["by the engine of today",                   { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ mountId: MS0, finished: true })] }, ["create-pod mp1", "update-attachment mp1:w1"]],
  ["also when it has vanished",                { listed: { [MP0]: ["w1"] }, mounts: { [MP0]: MS0 }, wanting: ["w1"] }, ["create-pod mp1", "update-attachment mp1:w1"]],
  ["and with it who it was made for",          { listed: { [MP0]: ["w2"] }, mounts: { [MP0]: MS0 }, wanting: ["w2"] }, ["create-pod heir", "update-attachment heir:w2"]],
  ["a crash left that one: it is used",        { engine: "mount-s3", listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ mountId: MS0, finished: true }), pod({ name: MP1, generation: 1, mountId: MS1, ...young })] }, ["update-attachment mp1(ms1):w1"]],
  ["in a crash loop it is told to unmount",    { engine: "mount-s3", listed: { [MP1]: ["w1"] }, wanting: ["w1"], pods: [pod({ mountId: MS0, backingOff: true }), pod({ name: MP1, generation: 1, mountId: MS1 })] }, ["mark-pod mp0"]],
  ["one that can't start is waited for",       { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ started: false, cannotStart: "no image" })] }, []],
  ["unless its settings have changed",         { listed: { [MP0]: ["w1"] }, wanting: ["w1"], outdated: [MP0], pods: [pod({ started: false, cannotStart: "no image" })] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
  ["and the one before has had its time",      { listed: { [MP0]: ["w1"] }, wanting: ["w1"], outdated: [MP0], pods: [pod({ started: false, cannotStart: "no image", ...young })] }, ["look-again 600"]],
  ["nor one that only has not started",        { listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ started: false })] }, []],
  ["with changed settings it is replaced",     { listed: { [MP0]: ["w1"] }, wanting: ["w1"], outdated: [MP0], pods: [pod({ started: false })] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
  ["but may be about to start",                { listed: { [MP0]: ["w1"] }, wanting: ["w1"], outdated: [MP0], pods: [pod({ started: false, ...young })] }, ["look-again 14600"]],
  ["a newcomer does not wait for that",        { listed: { [MP0]: ["w1"] }, wanting: ["w1", "w3"], outdated: [MP0], pods: [pod({ started: false, cannotStart: "no image", ...young })] }, ["look-again 600", "create-pod new", "update-attachment mp0:w1 new:w3"]],
  ["nor is it replaced for those that leave",  { listed: { [MP0]: ["w1"] }, leaving: ["w1"], outdated: [MP0], pods: [pod({ started: false, cannotStart: "no image" })] }, []],
  ["the other engine begins another mount",    { engine: "mount-s3", listed: { [MP0]: ["w1"] }, wanting: ["w1"], outdated: [MP0], pods: [pod({ mountId: MS0, started: false, cannotStart: "no image" })] }, ["create-pod mp1 for ms1", "update-attachment mp1(ms1):w1"]],
  ["a mount of the first version: left alone", { wanting: ["w1"], started: ["w1"] },                     []],
  ["also beside one that is served",           { listed: { [OTHER0]: ["w2"] }, wanting: ["w1", "w2"], started: ["w1"], pods: [pod({ name: OTHER0, workloadUid: "w2" })] }, []],
  ["also beside one that comes",               { wanting: ["w1", "w3"], started: ["w1"] },               ["create-pod new", "create-attachment new:w3"]],
  ["also when a crash left the pod for that",  { wanting: ["w1", "w3"], started: ["w1"], pods: [pod({ name: NEW, workloadUid: "w3" })] }, ["create-attachment new:w3"]],
  ["an attachment deleted by hand comes back", { wanting: ["w1"], started: ["w1"], pods: [pod()] },      ["create-attachment mp0:w1"]],
  ["with all that share the pod",              { wanting: ["w0", "w1"], started: ["w0", "w1"], pods: [pod()] }, ["create-attachment mp0:w0+w1"]],
  ["also when who it was made for is gone",    { wanting: ["w2"], started: ["w2"], gone: ["w1"], pods: [pod()] }, ["create-attachment mp0:w2"]],
  ["or is about to go",                        { wanting: ["w2"], started: ["w1", "w2"], leaving: ["w1"], pods: [pod()] }, ["create-attachment mp0:w2"]],
  ["but not on a guess",                       { wanting: ["w2"], started: ["w2"], pods: [pod()] },      ["mark-pod mp0"]],
  ["with a successor's mount",                 { wanting: ["w1"], started: ["w1"], pods: [pod({ name: MP1, generation: 1, mountId: MP0 })] }, ["create-attachment mp1(mp0):w1"]],
  ["with the last server of its mount",        { wanting: ["w1", "w2"], started: ["w1", "w2"], pods: [pod(), pod({ name: MP1, generation: 1, mountId: MP0 })] }, ["create-attachment mp1(mp0):w1+w2", "delete-pod mp0"]],
  ["each to the pod that was made for it",     { wanting: ["w1", "w2"], started: ["w1", "w2"], pods: [pod(), pod({ name: OTHER0, workloadUid: "w2" })] }, ["create-attachment mp0:w1 other0:w2"]],
  ["each to its mount where that is known",    { wanting: ["w0", "w1"], started: ["w0", "w1"], gone: ["w2"], lastMounts: { w0: [OTHER0] }, pods: [pod(), pod({ name: OTHER0, workloadUid: "w2" })] }, ["create-attachment other0:w0 mp0:w1"]],
  ["an entry removed by hand comes back",      { listed: { [MP0]: ["w2"] }, wanting: ["w1", "w2"], started: ["w1", "w2"], lastMounts: { w1: [MP0] }, pods: [pod()] }, ["update-attachment mp0:w2+w1"]],
  ["attachment and pod deleted: a successor",  { wanting: ["w1"], started: ["w1"], lastMounts: { w1: [MP0] } }, ["create-pod mp1 for mp0", "create-attachment mp1(mp0):w1"]],
  ["one for all that share the mount",         { wanting: ["w0", "w1"], started: ["w0", "w1"], lastMounts: { w0: [MP0], w1: [MP0] } }, ["create-pod mp1 for mp0", "create-attachment mp1(mp0):w0+w1"]],
  ["also when the pod was a successor",        { wanting: ["w1"], started: ["w1"], lastMounts: { w1: [MP0, MP1] } }, ["create-pod mp2 for mp0", "create-attachment mp2(mp0):w1"]],
  ["also when the pod crashes",                { wanting: ["w1"], started: ["w1"], lastMounts: { w1: [MP0] }, pods: [pod({ backingOff: true })] }, ["create-pod mp1 for mp0", "create-attachment mp1(mp0):w1", "delete-pod mp0"]],
  ["or is being deleted",                      { wanting: ["w1"], started: ["w1"], lastMounts: { w1: [MP0] }, pods: [pod({ terminating: true })] }, ["create-pod mp1 for mp0", "create-attachment mp1(mp0):w1"]],
  ["or has failed",                            { wanting: ["w1"], started: ["w1"], lastMounts: { w1: [MP0] }, pods: [pod({ finished: true })] }, ["create-pod mp1 for mp0", "create-attachment mp1(mp0):w1", "delete-pod mp0"]],
  ["one of mount-s3 gets another mount",       { engine: "mount-s3", wanting: ["w1"], started: ["w1"], lastMounts: { w1: [MS0, MP0] } }, ["create-pod mp1 for ms1", "create-attachment mp1(ms1):w1"]],
  ["a started one that is listed has a heir",  { listed: { [MP0]: ["w1"] }, wanting: ["w1"], started: ["w1"] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
  ["below the limit: served",                  { limit: "room", wanting: ["w1"] },                    ["create-pod mp0", "create-attachment mp0:w1"]],
  ["at the limit: an attachment that tells",   { limit: "full", wanting: ["w1"] },                    ["hold-back w1", "create-attachment "]],
  ["told already: it stays",                   { limit: "full", listed: {}, wanting: ["w1"] },        ["hold-back w1"]],
  ["until the workload goes",                  { limit: "full", listed: {} },                         ["delete-attachment"]],
  ["or there is a place",                      { limit: "room", listed: {}, wanting: ["w1"] },        ["create-pod mp0", "update-attachment mp0:w1"]],
  ["a place is for all volumes of a workload", { limit: ["w2"], listed: { [MP0]: ["w1"] }, wanting: ["w1", "w2", "w3"], pods: [pod()] }, ["hold-back w3", "update-attachment mp0:w1+w2"]],
  ["a Mountpoint Pod that is there is joined", { limit: "share", listed: { [MP0]: ["w1"] }, wanting: ["w1", "w2"], pods: [pod()] }, ["update-attachment mp0:w1+w2"]],
  ["a second one beside it is held back",      { limit: "full", listed: { [MP0]: ["w1"] }, wanting: ["w1", "w2"], pods: [pod({ noNewWorkload: true })] }, ["hold-back w2"]],
  ["one of another driver version too",        { limit: "share", listed: { [MP0]: ["w1"] }, wanting: ["w1", "w2"], pods: [pod({ driverVersion: "0" })] }, ["update-attachment mp0:w1+w2"]],
  ["but below the limit there is a new one",   { limit: "room", listed: { [MP0]: ["w1"] }, wanting: ["w1", "w3"], pods: [pod({ driverVersion: "0" })] }, ["create-pod new", "update-attachment mp0:w1 new:w3"]],
  ["one that a crash left is used",            { limit: "share", wanting: ["w1"], pods: [pod()] },     ["create-attachment mp0:w1"]],
  ["by all, whichever of them it is for",      { limit: "share", wanting: ["w1", "w2"], pods: [pod({ name: OTHER0, workloadUid: "w2" })] }, ["create-attachment other0:w1+w2"]],
  ["but not if its workload has to wait",      { limit: ["w1"], wanting: ["w1", "w2"], pods: [pod({ name: OTHER0, workloadUid: "w2", ...young })] }, ["hold-back w1+w2", "create-attachment ", "look-again 29600"]],
  ["a successor has its place",                { limit: "full", listed: { [MP0]: ["w1"] }, wanting: ["w1"] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
  ["one of mount-s3 too",                      { limit: "full", engine: "mount-s3", listed: { [MP0]: ["w1"] }, mounts: { [MP0]: MS0 }, wanting: ["w1"] }, ["create-pod mp1 for ms1", "update-attachment mp1(ms1):w1"]],
  ["who runs is served again over the limit",  { limit: "full", wanting: ["w1"], started: ["w1"], lastMounts: { w1: [MP0] } }, ["create-pod mp1 for mp0", "create-attachment mp1(mp0):w1"]],
  ["nobody is touched over the limit",         { limit: "full", listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod()] }, []],
  ["a name of another driver's pod is skipped", { foreign: [MP0], wanting: ["w1"] },                    ["create-pod mp1", "create-attachment mp1:w1"]],
  ["another driver's pod keeps its workloads", { foreign: [MP0], listed: { [MP0]: ["w1"] }, wanting: ["w1"], started: ["w1"] }, []],
  ["until they are gone",                      { foreign: [MP0], listed: { [MP0]: ["w1"] }, gone: ["w1"] }, ["delete-attachment"]],
  ["new workloads do not join it",             { foreign: [MP0], listed: { [MP0]: ["w1"] }, wanting: ["w1", "w3"], started: ["w1"] }, ["create-pod new", "update-attachment mp0:w1 new:w3"]],
  ["a node that is only not ready counts",     { node: { ...UP, ready: false }, listed: { [MP0]: ["w1"] }, wanting: ["w1"], pods: [pod({ finished: true })] }, ["create-pod mp1 for mp0", "update-attachment mp1(mp0):w1"]],
];
for (const [name, scene, want] of cases) {
  test(name, () => {
    assert.deepEqual(act(scene), want);
  });
}

test("who moves gets a new time, who stays keeps the old one", () => {
  const seen: Observed = {
    name: "s3pa-1",
    key,
    attachment: attachment({ [MP0]: ["w1"] }),
    wanting: [workload("w1"), workload("w2")],
    gone: new Set(),
    leaving: new Set(),
    attributes: {},
    remembered: new Map(),
    bound: new Set(),
    outdated: new Set(),
    foreign: new Set(),
    lastMounts: new Map(),
    node: UP,
    pods: new Map([[MP0, pod()]]),
    driverVersion: "1",
    engine: "s3csi",
    nowMs,
  };
  const [action] = decide(seen);
  assert(action?.do === "update-attachment");
  assert.deepEqual(action.lists.attachments[MP0], [...entries(["w1"]), ...entries(["w2"], NOW)]);
});

test("a pod that has vanished is remembered by who it was made for", () => {
  const seen: Observed = {
    name: "s3pa-1",
    key,
    attachment: attachment({ [MP0]: ["w2"] }),
    attributes: {},
    remembered: new Map([[MP0, { workloadUid: "w1", generation: 0 }]]),
    bound: new Set(),
    outdated: new Set(),
    foreign: new Set(),
    lastMounts: new Map(),
    wanting: [workload("w2")],
    gone: new Set(),
    leaving: new Set(),
    node: UP,
    pods: new Map(),
    driverVersion: "1",
    engine: "s3csi",
    nowMs,
  };
  assert.deepEqual(decide(seen).map(wordOf), [
    "create-pod mp1 for mp0",
    "update-attachment mp1(mp0):w2",
  ]);
});

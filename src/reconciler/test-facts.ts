import type { MountpointPod, Workload } from "./facts.ts";

/** For tests: a workload that is scheduled and waits for its volume. */
export const TEST_WORKLOAD: Workload = {
  uid: "w1",
  namespace: "ns",
  name: "app",
  nodeName: "n1",
  ended: false,
  terminating: false,
  started: false,
  fsGroup: "",
  serviceAccountName: "",
  claims: ["c"],
  createdMs: 0,
  gated: false,
  hadGate: false,
};

/** For tests: a Mountpoint Pod that serves that workload. */
export const TEST_POD: MountpointPod = {
  name: "mp-1",
  uid: "p",
  createdMs: 0,
  scheduled: true,
  started: true,
  finished: false,
  terminating: false,
  backingOff: false,
  cannotStart: "",
  settingsHash: "",
  unschedulable: "",
  shutDown: false,
  needsUnmount: false,
  noNewWorkload: false,
  driverVersion: "1",
  attachment: "s3pa-1",
  generation: 0,
  workloadUid: "w1",
  mountId: "mp-1",
};

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { VolumeTurn } from "./volume-turn.ts";

const DRIVER = "s3.csi.scality.com";

const root = mkdtempSync(join(tmpdir(), "s3csi-turn-"));
after(() => rmSync(root, { recursive: true }));

const targetOf = (podUid: string, pvName = "pv-1") => ({
  path: join(root, "pods", podUid, "volumes/kubernetes.io~csi", pvName, "mount"),
  podUid,
  pvName,
});
const requestOf = (podUid: string) => ({ target: targetOf(podUid), volumeId: "handle-1" });
const hasVolume = (podUid: string, pvName?: string, handle = "handle-1", driverName = DRIVER) => {
  const dir = dirname(targetOf(podUid, pvName).path);
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "vol_data.json"), JSON.stringify({ driverName, volumeHandle: handle }));
};

test("a pod that has finished and still has the volume needs the turn", () => {
  const finished = new Set<string>();
  const listeners = new Set<(uid: string) => void>();
  const view = {
    finishedPods: () => finished,
    onPodFinished(listener: (uid: string) => void) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
  };
  for (const uid of ["ours", "running", "finished", "deleted"]) hasVolume(uid);
  hasVolume("of-another-volume", "pv-2", "handle-2");
  hasVolume("of-another-driver", "pv-3", "handle-1", "other.example.com");
  const turn = new VolumeTurn(view, requestOf("ours"));
  let told = 0;
  {
    using _told = turn.onNeeded(() => (told += 1));
    assert.equal(turn.neededBy(), undefined);
    const others = ["of-another-volume", "of-another-driver", "without-a-directory"];
    for (const uid of ["ours", ...others]) finished.add(uid);
    assert.equal(turn.neededBy(), undefined);

    finished.add("finished");
    assert.equal(turn.neededBy(), "finished");
    rmSync(dirname(targetOf("finished").path), { recursive: true }); // the kubelet has unmounted it
    assert.equal(turn.neededBy(), undefined);

    for (const listener of listeners) listener("deleted");
    assert.deepEqual([told, turn.neededBy()], [1, "deleted"]);
    rmSync(dirname(targetOf("deleted").path), { recursive: true });

    finished.add("same-handle");
    assert.equal(turn.neededBy(), undefined);
    hasVolume("same-handle", "pv-4");
    assert.equal(turn.neededBy(), "same-handle");
  }
  assert.equal(listeners.size, 0);
});

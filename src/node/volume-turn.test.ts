import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { VolumeTurn } from "./volume-turn.ts";

const root = mkdtempSync(join(tmpdir(), "s3csi-turn-"));
after(() => rmSync(root, { recursive: true }));

const targetOf = (podUid: string, pvName = "pv-1") => ({
  path: join(root, "pods", podUid, "volumes/kubernetes.io~csi", pvName, "mount"),
  podUid,
  pvName,
});
const hasVolume = (podUid: string, pvName?: string) =>
  mkdirSync(dirname(targetOf(podUid, pvName).path), { recursive: true });

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
  hasVolume("of-another-volume", "pv-2");
  const turn = new VolumeTurn(view, targetOf("ours"));
  let told = 0;
  {
    using _told = turn.onNeeded(() => (told += 1));
    assert.equal(turn.neededBy(), undefined);
    for (const uid of ["ours", "of-another-volume", "without-a-directory"]) finished.add(uid);
    assert.equal(turn.neededBy(), undefined);

    finished.add("finished");
    assert.equal(turn.neededBy(), "finished");
    rmSync(dirname(targetOf("finished").path), { recursive: true }); // the kubelet has unmounted it
    assert.equal(turn.neededBy(), undefined);

    for (const listener of listeners) listener("deleted");
    assert.deepEqual([told, turn.neededBy()], [1, "deleted"]);
  }
  assert.equal(listeners.size, 0);
});

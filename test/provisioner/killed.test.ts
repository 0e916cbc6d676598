import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { loadKubeAccess } from "../../src/kube/kube-access.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { startApiServer } from "../../tools/stack/api-server.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { ControllerProcess, writePlainKubeconfig } from "./controller-process.ts";
import type { ControllerOptions } from "./controller-process.ts";
import { FaultyLine } from "./faulty-line.ts";
import type { Passing } from "./faulty-line.ts";
import { Users, environmentOf } from "./objects.ts";

/** The writes of a claim's life, and the read that decides between them. */
const CREATING: Readonly<Record<string, RegExp>> = {
  "hold the claim": /^PATCH .*\/persistentvolumeclaims\//,
  "create the bucket": /^PUT \/csi-s3-[^?]*(\?x-id=\w+)?$/,
  "read its tags": /^GET \/csi-s3-.*\?tagging/,
  "set its tags": /^PUT \/csi-s3-.*\?tagging/,
  "create the PV": /^POST .*\/persistentvolumes$/,
};
const SETTLING: Readonly<Record<string, RegExp>> = {
  "let the claim go": /^PATCH .*\/persistentvolumeclaims\//,
};
const DELETING: Readonly<Record<string, RegExp>> = {
  "delete the bucket": /^DELETE \/csi-s3-/,
  "delete the PV": /^DELETE .*\/persistentvolumes\//,
  "take off its finalizer": /^PATCH .*\/persistentvolumes\//,
};
type When = "before" | "after";
const WHEN: readonly When[] = ["before", "after"];
const TIMEOUT = { timeout: 30_000 };

const stop = new AbortController();
const owned = new AsyncDisposableStack();
let users: Users;
let options: ControllerOptions;
let running: ControllerProcess;
/** Where the next kill falls; one at a time. */
let armed: { readonly call: RegExp; readonly when: When; skip: number } | undefined;

before(async () => {
  const plane = owned.use(await startApiServer());
  const s3 = owned.use(await startS3Server());
  const access = await loadKubeAccess(plane.kubeconfig);
  const admin = owned.use(new KubeClient(access));
  users = new Users(admin, s3, stop.signal);
  owned.defer(() => stop.abort());
  await users.start();
  await users.storageClass("plain");
  const seen = {
    judge: (request: Passing) => (strikes(request, "before") ? ("hang" as const) : undefined),
    done: (request: Passing) => void strikes(request, "after"),
  };
  const api = owned.use(new FaultyLine({ target: access.server, tls: access.tls, ...seen }));
  const store = owned.use(new FaultyLine({ target: new URL(s3.endpoint), ...seen }));
  const dir = owned.use(await temporaryDirectory());
  const path = join(dir.path, "kubeconfig");
  const kubeconfig = await writePlainKubeconfig(path, await api.listen());
  const env = environmentOf({ ...s3, endpoint: await store.listen() });
  options = { kubeconfig, env, name: "controller-0" };
  running = new ControllerProcess(options);
  owned.defer(() => running[Symbol.asyncDispose]());
}, TIMEOUT);

after(() => owned.disposeAsync());

/** Kills when it is time to. True: the request must not go on either. */
function strikes({ method, path }: Passing, when: When): boolean {
  if (armed?.when !== when || !armed.call.test(`${method} ${path}`)) return false;
  if (armed.skip-- > 0) return false;
  armed = undefined;
  void running.end("SIGKILL");
  return true;
}

async function reborn(): Promise<void> {
  await running.ended;
  running = new ControllerProcess(options);
}

for (const [calls, skip] of [
  [CREATING, 0],
  [SETTLING, 1],
] as const) {
  for (const [name, call] of Object.entries(calls)) {
    for (const when of WHEN) {
      test(`killed ${when} it could ${name}: bound in the end, one bucket`, TIMEOUT, async () => {
        armed = { call, when, skip };
        const claim = `c-${name.replaceAll(" ", "-")}-${when}`.toLowerCase();
        await users.claim(claim, "plain");
        await reborn();
        const volume = await users.bound(claim);
        assert.deepEqual(await users.buckets(), [volume.spec?.csi?.volumeHandle]);
        await users.deleteClaim(claim);
        await users.volumeGone(volume.metadata?.name ?? "");
        assert.deepEqual(await users.buckets(), []);
      });
    }
  }
}

for (const [name, call] of Object.entries(DELETING)) {
  for (const when of WHEN) {
    test(`killed ${when} it could ${name}: gone in the end, no bucket`, TIMEOUT, async () => {
      const claim = `d-${name.replaceAll(" ", "-")}-${when}`.toLowerCase();
      await users.claim(claim, "plain");
      const volume = await users.bound(claim);
      armed = { call, when, skip: 0 };
      await users.deleteClaim(claim);
      await reborn();
      await users.volumeGone(volume.metadata?.name ?? "");
      assert.deepEqual(await users.buckets(), []);
    });
  }
}

for (const [name, call] of Object.entries(CREATING)) {
  test(`killed after it could ${name}, then the claim is deleted: no orphan`, TIMEOUT, async () => {
    const claim = `o-${name.replaceAll(" ", "-")}`.toLowerCase();
    armed = { call, when: "after", skip: 0 };
    const uid = await users.claim(claim, "plain");
    await running.ended;
    await users.deleteClaim(claim);
    await reborn();
    await users.claimGone(claim);
    await users.volumeGone(`pvc-${uid}`);
    assert.deepEqual(await users.buckets(), []);
  });
}

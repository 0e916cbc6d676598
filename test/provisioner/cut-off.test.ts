import assert from "node:assert/strict";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "node:test";
import { loadKubeAccess } from "../../src/kube/kube-access.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { startApiServer } from "../../tools/stack/api-server.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { ControllerProcess, writePlainKubeconfig } from "./controller-process.ts";
import { FaultyLine } from "./faulty-line.ts";
import type { Passing } from "./faulty-line.ts";
import { Users, environmentOf } from "./objects.ts";

const AWAY_MS = process.env["FULL"] ? 60_000 : 5_000;
const isCreation = ({ method, path }: Passing) => method === "PUT" && !path.includes("?tagging");

/** A control plane, an S3 server, and one controller whose lines to both are in our hands. */
async function start() {
  await using owned = new AsyncDisposableStack();
  const plane = owned.use(await startApiServer());
  const s3 = owned.use(await startS3Server());
  const access = await loadKubeAccess(plane.kubeconfig);
  const stop = new AbortController();
  const { signal } = stop;
  const users = new Users(owned.use(new KubeClient(access)), s3, signal);
  owned.defer(() => stop.abort());
  await users.start();
  await users.storageClass("plain");
  const state = { isCut: false, made: 0, answers: Promise.resolve() };
  const news = Promise.withResolvers<void>();
  const api = new FaultyLine({
    target: access.server,
    tls: access.tls,
    judge: () => (state.isCut ? "reset" : undefined),
  });
  const store = new FaultyLine({
    target: new URL(s3.endpoint),
    judge: () => undefined,
    async done(request) {
      if (!isCreation(request)) return;
      state.made += 1;
      if (state.made === 2) news.resolve();
      await state.answers;
    },
  });
  for (const line of [api, store]) owned.use(line);
  const { path } = owned.use(await temporaryDirectory());
  const kubeconfig = await writePlainKubeconfig(join(path, "kubeconfig"), await api.listen());
  const env = environmentOf({ ...s3, endpoint: await store.listen() });
  const first = owned.use(new ControllerProcess({ kubeconfig, env, name: "first" }));
  const beside = { kubeconfig: plane.kubeconfig, env: environmentOf(s3), name: "second" };
  const all = owned.move();
  return {
    users,
    signal,
    state,
    twoMade: news.promise,
    first,
    startSecond: () => all.use(new ControllerProcess(beside)),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

test(
  "the leader is cut off while S3 makes its buckets, and another leads: none twice, none left",
  { timeout: 120_000 },
  async () => {
    await using world = await start();
    const { users, state, first } = world;
    const answers = Promise.withResolvers<void>();
    await users.claim("before", "plain");
    await users.bound("before");
    await users.removed("before");
    [state.made, state.answers] = [0, answers.promise];
    await Promise.all(["kept", "dropped"].map((name) => users.claim(name, "plain")));
    await world.twoMade;
    assert.equal((await users.buckets()).length, 2);
    state.isCut = true;
    const second = world.startSecond();
    await second.standingBy();
    await users.deleteClaim("dropped");
    await Promise.all([users.bound("kept"), users.claimGone("dropped")]);
    answers.resolve(); // too late: whoever asked leads no more
    state.isCut = false;
    await users.claim("after", "plain");
    const volumes = [await users.bound("kept"), await users.bound("after")];
    const handles = volumes.map((one) => one.spec?.csi?.volumeHandle ?? "").toSorted();
    assert.deepEqual((await users.buckets()).toSorted(), handles);
    assert(first.isRunning && second.isRunning);
    await Promise.all([users.removed("kept"), users.removed("after")]);
    assert.deepEqual(await users.buckets(), []);
  },
);

test(
  "the API server is away from the only controller: it lives, and work goes on",
  { timeout: 120_000 + AWAY_MS },
  async () => {
    await using world = await start();
    const { users, state, first } = world;
    await users.claim("before", "plain");
    const { metadata } = await users.bound("before");
    state.isCut = true;
    await users.claim("during", "plain");
    await users.deleteClaim("before");
    await delay(AWAY_MS); // the length of it is the point
    state.isCut = false;
    await users.bound("during");
    await users.volumeGone(metadata?.name ?? "");
    await users.removed("during");
    assert.deepEqual(await users.buckets(), []);
    assert(first.isRunning);
  },
);

import assert from "node:assert/strict";
import { test } from "node:test";
import { createLog } from "../base/pino-log.ts";
import type { Source } from "./kept-mount.ts";
import { Preparations } from "./preparations.ts";
import type { Work } from "./preparations.ts";
import type { PublishRequest } from "./publish-request.ts";
import { PUBLISH_TIMES, untilPrepared } from "./publish-wait.ts";

const log = createLog("error", {});
log.level = "silent";
const REQUEST: PublishRequest = {
  volumeId: "vol-1",
  target: { path: "/pods/w-1/volumes/kubernetes.io~csi/pv-1/mount", podUid: "w-1", pvName: "pv-1" },
  workloadUid: "w-1",
  mountOptions: [],
  readOnly: false,
  isReadOnlyVolume: false,
  context: { bucketName: "b", authenticationSource: "secret", prefix: "", region: undefined },
  secrets: { secret_access_key: "one" },
};
const SOURCE: Source = { dir: "/mnt/mp-1", device: "0:42" };
const NO_TURN = { neededBy: () => undefined, onNeeded: () => ({ [Symbol.dispose]() {} }) };
const SOON = { ...PUBLISH_TIMES, causeAfterMs: 20 };
const never = () => new AbortController().signal;

/** A work that ends when the test says so, or with its signal. */
function work() {
  const { promise, resolve, reject } = Promise.withResolvers<Source>();
  const begin: Work = (_preparation, signal) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    return promise;
  };
  return { begin, resolve, reject };
}

test("an equal request joins the preparation under way, after an early answer too", async () => {
  const preparations = new Preparations(log);
  const { begin, resolve } = work();
  const first = preparations.join(REQUEST, begin);
  first.step = { waitsFor: "x", isAssigned: true, cause: () => "no room" };
  const early = untilPrepared(first, NO_TURN, SOON, never());
  await assert.rejects(early, { kind: "remote", message: "Timed out waiting for x: no room" });
  const second = preparations.join(structuredClone(REQUEST), () => assert.fail("it begins anew"));
  assert.equal(second, first);
  resolve(SOURCE);
  assert.equal(await untilPrepared(second, NO_TURN, PUBLISH_TIMES, never()), SOURCE);
});

test("a request with other keys ends the one under way and begins anew", async () => {
  const preparations = new Preparations(log);
  const first = preparations.join(REQUEST, work().begin);
  const other = { ...REQUEST, secrets: { secret_access_key: "two" } };
  const { begin, resolve } = work();
  const second = preparations.join(other, begin);
  assert.notEqual(second, first);
  await assert.rejects(first.source);
  assert.equal(first.isCancelled, true);
  resolve(SOURCE);
  assert.equal(await second.source, SOURCE);
});

test("a preparation that has ended is not joined, whether it failed or not", async () => {
  const preparations = new Preparations(log);
  for (const end of ["resolve", "reject"] as const) {
    const { begin, resolve, reject } = work();
    const first = preparations.join(REQUEST, begin);
    if (end === "resolve") resolve(SOURCE);
    else reject(new Error("no"));
    await first.source.catch(() => {});
    await new Promise(setImmediate);
    const second = preparations.join(REQUEST, work().begin);
    assert.notEqual(second, first, end);
    preparations.cancel(REQUEST.target.path);
    await assert.rejects(second.source);
  }
});

test("a cause that becomes known later is answered then", async () => {
  const preparation = new Preparations(log).join(REQUEST, work().begin);
  const known: { cause?: string } = {};
  preparation.step = { waitsFor: "x", isAssigned: true, cause: () => known.cause };
  const times = { ...PUBLISH_TIMES, causeAfterMs: 0 };
  const answered = untilPrepared(preparation, NO_TURN, times, never());
  const waits = await Promise.race([answered.catch(() => "answered"), later(50)]);
  assert.equal(waits, "waits");
  known.cause = "ErrImagePull";
  preparation.changed();
  await assert.rejects(answered, { message: "Timed out waiting for x: ErrImagePull" });
});

test("the caller's deadline is a timeout, and nothing is ended by it", async () => {
  const { begin, resolve } = work();
  const preparation = new Preparations(log).join(REQUEST, begin);
  const late = untilPrepared(preparation, NO_TURN, PUBLISH_TIMES, AbortSignal.timeout(10));
  await assert.rejects(late, {
    kind: "timeout",
    message: /^Timed out waiting for MountpointS3Pod/,
  });
  assert.equal(preparation.isCancelled, false);
  resolve(SOURCE);
  await preparation.source;
});

function later(ms: number): Promise<string> {
  return new Promise((resolve) => setTimeout(resolve, ms, "waits"));
}

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Failure } from "../base/failure.ts";
import { createLog } from "../base/pino-log.ts";
import { EventWriter } from "./event-writer.ts";
import type { KubeClient } from "./kube-client.ts";

const SAME_AGAIN_MS = 300_000;
const { signal } = new AbortController();
const text = { type: "Warning", reason: "Why", action: "Do", note: "it can't" } as const;
const podOf = (uid: string) => ({ apiVersion: "v1", kind: "Pod", name: "p", uid });

function setUp() {
  const create = mock.fn(async () => ({}));
  const client = { create } as unknown as Pick<KubeClient, "create">;
  const events = new EventWriter(
    client,
    { controller: "c", instance: "i" },
    createLog("error", {}),
  );
  /** The same about so many pods; how many of the events were written. */
  const tell = async (pods: number): Promise<number> => {
    const before = create.mock.callCount();
    for (let i = 0; i < pods; i += 1) await events.write(podOf(`w-${i}`), text, signal);
    return create.mock.callCount() - before;
  };
  return { create, events, tell };
}

test("the same words about the same object are said once in five minutes", async (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: 1_000_000 });
  const { tell } = setUp();
  assert.equal(await tell(3), 3);
  t.mock.timers.tick(SAME_AGAIN_MS - 1);
  assert.equal(await tell(4), 1);
  t.mock.timers.tick(1);
  assert.equal(await tell(4), 3);
});

test("more trouble than can be remembered: part of it is told, and once", async (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: 1_000_000 });
  const { tell } = setUp();
  assert.equal(await tell(12_000), 10_000);
  t.mock.timers.tick(60_000);
  assert.equal(await tell(12_000), 0);
  t.mock.timers.tick(SAME_AGAIN_MS);
  assert.equal(await tell(12_000), 10_000);
});

const AWAY = new Failure("remote", "the API server is away");

test("an event whose write failed is written when it is told again", async () => {
  const { create, tell } = setUp();
  create.mock.mockImplementationOnce(() => Promise.reject(AWAY));
  assert.deepEqual([await tell(1), await tell(1), await tell(1)], [1, 1, 0]);
});

test("a caller learns whether the event is written, by itself or by another caller", async () => {
  const { create, events } = setUp();
  const tryTwice = () => Promise.all([1, 2].map(() => events.tryWrite(podOf("w"), text, signal)));
  create.mock.mockImplementationOnce(() => Promise.reject(AWAY));
  assert.deepEqual(await tryTwice(), [false, false]);
  assert.deepEqual(await tryTwice(), [true, true]);
  assert.equal(create.mock.callCount(), 2);
});

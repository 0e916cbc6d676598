import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { createLog } from "../base/pino-log.ts";
import { EventWriter } from "./event-writer.ts";
import type { KubeClient } from "./kube-client.ts";
import type { KubeEvent } from "./resource.ts";

const SAME_AGAIN_MS = 300_000;
const COMPONENT = { controller: "c", instance: "i" };
const { signal } = new AbortController();
const text = { type: "Warning", reason: "Why", action: "Do", note: "it can't" } as const;
const podOf = (uid: string) => ({ apiVersion: "v1", kind: "Pod", name: "p", uid });

function setUp() {
  const create = mock.fn(async () => ({}));
  const client = { create } as unknown as Pick<KubeClient, "create">;
  const [warn, debug] = [mock.fn<Log["warn"]>(), mock.fn<Log["debug"]>()];
  const events = new EventWriter(client, COMPONENT, { ...createLog("error", {}), warn, debug });
  /** The same about so many pods; how many of the events were written. */
  const tell = async (pods: number): Promise<number> => {
    const before = create.mock.callCount();
    for (let i = 0; i < pods; i += 1) await events.write(podOf(`w-${i}`), text, signal);
    return create.mock.callCount() - before;
  };
  return { create, warn, debug, events, tell };
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

async function writtenFor(name: string, note: string): Promise<KubeEvent> {
  const created: KubeEvent[] = [];
  const create = async (_: unknown, event: KubeEvent) => {
    created.push(event);
    return event;
  };
  const client = { create } as unknown as Pick<KubeClient, "create">;
  const events = new EventWriter(client, COMPONENT, createLog("error", {}));
  await events.write({ ...podOf("w"), name }, { ...text, note }, signal);
  const [event] = created;
  assert(event !== undefined);
  return event;
}

// prettier-ignore
const notes: [name: string, note: string, want: string][] = [
  ["1,024 bytes",                      "n".repeat(1_024),               "n".repeat(1_024)],
  ["1,024 bytes in two-byte letters",  "ä".repeat(512),                 "ä".repeat(512)],
  ["1,025 bytes",                      "n".repeat(1_025),               `${"n".repeat(1_021)}…`],
  ["two-byte letters",                 "ä".repeat(600),                 `${"ä".repeat(510)}…`],
  ["four-byte characters",             "😀".repeat(300),                `${"😀".repeat(255)}…`],
  ["a character across the limit",     `n${"😀".repeat(300)}`,          `n${"😀".repeat(255)}…`],
  ["one that ends just at the limit",  `nnnnn${"😀".repeat(300)}`,      `nnnnn${"😀".repeat(254)}…`],
  ["half a surrogate pair",            `${"n".repeat(1_030)}\ud83d`,    `${"n".repeat(1_021)}…`],
];
for (const [name, given, want] of notes) {
  test(`a note of ${name} has at most 1,024 bytes, and whole characters`, async () => {
    const { note = "" } = await writtenFor("p", given);
    assert.equal(note, want);
    assert(Buffer.byteLength(note) <= 1_024);
  });
}

// prettier-ignore
const names: [name: string, want: string][] = [
  ["data",                                "data"],
  ["a".repeat(253),                       "a".repeat(200)],
  [`${"a".repeat(199)}-bbbb`,             "a".repeat(199)],
  [`${"a".repeat(199)}.bbbb`,             "a".repeat(199)],
  [`${"a".repeat(197)}---bbbb`,           "a".repeat(197)],
];
for (const [name, want] of names) {
  test(`the event about ${name} has a legal name`, async () => {
    const { metadata } = await writtenFor(name, "n");
    assert.match(
      metadata?.name ?? "",
      new RegExp(`^${want.replaceAll(".", "\\.")}\\.[0-9a-f]{16}$`),
    );
  });
}

test("an event refused as invalid is logged as a warning and not tried again", async () => {
  const { create, warn, debug, events } = setUp();
  const REFUSED = new Failure("invalid", "message: can have at most 1024 characters");
  create.mock.mockImplementation(() => Promise.reject(REFUSED));
  const tryOnce = () => events.tryWrite(podOf("w"), text, signal);
  assert.deepEqual([await tryOnce(), await tryOnce()], [false, false]);
  assert.equal(create.mock.callCount(), 1);
  const logged = warn.mock.calls.map((call) => call.arguments);
  assert.deepEqual(logged, [[{ err: REFUSED, reason: "Why" }, "event not written"]]);
  assert.equal(debug.mock.callCount(), 0);
});

test("an event that the API server can't take now is logged for debugging only", async () => {
  const { create, warn, debug, tell } = setUp();
  create.mock.mockImplementationOnce(() => Promise.reject(AWAY));
  await tell(1);
  assert.deepEqual([warn.mock.callCount(), debug.mock.callCount()], [0, 1]);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { Turnstile } from "./turnstile.ts";
import type { RequestLoad } from "./turnstile.ts";

const NEVER = new AbortController().signal;

function enterAll(turnstile: Turnstile, load: RequestLoad, count: number): Promise<Disposable[]> {
  return Promise.all(Array.from({ length: count }, () => turnstile.enter(load, NEVER)));
}

/** Called when the request has been admitted. */
function watched(place: Promise<Disposable>) {
  const state = { isAdmitted: false, place };
  void place.then(() => (state.isAdmitted = true));
  return state;
}

for (const [load, other] of [
  ["upload", "download"],
  ["download", "upload"],
] as const) {
  test(`${load}s leave a quarter of the places to other requests`, async () => {
    const turnstile = new Turnstile(8);
    const places = await enterAll(turnstile, load, 6);
    const seventh = watched(turnstile.enter(load, NEVER));
    const others = [await turnstile.enter(other, NEVER), await turnstile.enter("small", NEVER)];
    assert.equal(seventh.isAdmitted, false);
    for (const place of others) place[Symbol.dispose]();
    await new Promise(setImmediate);
    assert.equal(seventh.isAdmitted, false, `the place of an ${other} is for ${other}s`);
    places[0]?.[Symbol.dispose]();
    (await seventh.place)[Symbol.dispose]();
  });
}

test("uploads and downloads leave an eighth of the places to requests without bytes", async () => {
  const turnstile = new Turnstile(8);
  const uploads = await enterAll(turnstile, "upload", 3);
  const downloads = await enterAll(turnstile, "download", 4);
  const eighth = watched(turnstile.enter("download", NEVER));
  const small = await turnstile.enter("small", NEVER);
  const further = watched(turnstile.enter("small", NEVER));
  assert.equal(eighth.isAdmitted, false);
  small[Symbol.dispose]();
  (await further.place)[Symbol.dispose]();
  assert.equal(eighth.isAdmitted, false);
  uploads[0]?.[Symbol.dispose]();
  (await eighth.place)[Symbol.dispose]();
  for (const place of [...uploads.slice(1), ...downloads]) place[Symbol.dispose]();
  assert.equal((await enterAll(turnstile, "small", 8)).length, 8, "all places are free again");
});

test("requests are admitted in the order in which they came, each load apart", async () => {
  const turnstile = new Turnstile(1);
  const first = await turnstile.enter("download", NEVER);
  const order: string[] = [];
  const loads = { a: "download", b: "upload", c: "small", d: "download" } as const;
  const all = Object.entries(loads).map(async ([name, load]) => {
    using _place = await turnstile.enter(load, NEVER);
    order.push(name);
  });
  first[Symbol.dispose]();
  await Promise.all(all);
  assert.deepEqual(order, ["a", "b", "c", "d"]);
});

test("a request that is given up leaves the queue at once", async () => {
  const turnstile = new Turnstile(1);
  const first = await turnstile.enter("download", NEVER);
  const giving = new AbortController();
  const waiting = turnstile.enter("download", giving.signal);
  giving.abort(new Error("given up"));
  await assert.rejects(waiting, /given up/);
  first[Symbol.dispose]();
  (await turnstile.enter("download", NEVER))[Symbol.dispose]();
});

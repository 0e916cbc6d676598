import assert from "node:assert/strict";
import { test } from "node:test";
import { ServerClock } from "./server-clock.ts";
import { scripted, signal } from "./test-endpoint.ts";
import type { Answer } from "./test-endpoint.ts";

const MINUTE_MS = 60_000;
const aheadBy = (aheadMs: number) => () => Date.now() + aheadMs;
const NONCE = "5f0c";

const lost: Answer = (response) => void response.destroy();
const begun: Answer = (response) => response.end("<R><UploadId>second</UploadId></R>");
const withoutParts: Answer = (response) => response.end("<ListPartsResult></ListPartsResult>");
const removed: Answer = (response) => response.writeHead(204).end();
const found: Answer = (response) =>
  response.writeHead(200, { etag: '"e"', "content-length": 3 }).end();
/** An upload of `k` that began at that time. */
const listed = (initiatedMs: number): Answer => {
  const initiated = new Date(initiatedMs).toISOString();
  const upload = `<Upload><Key>k</Key><UploadId>first</UploadId><Initiated>${initiated}</Initiated></Upload>`;
  return (response) =>
    response.end(`<ListMultipartUploadsResult>${upload}</ListMultipartUploadsResult>`);
};

for (const aheadMs of [6_000, 10 * MINUTE_MS, -10 * MINUTE_MS]) {
  for (const isKnown of [true, false]) {
    const of = `${Math.abs(aheadMs) / 1000} s ${aheadMs > 0 ? "ahead of" : "behind"}`;
    const known = isKnown ? "that has told its time" : "that was never asked before";
    test(`a clock that is ${of} an S3 ${known} hides no lost upload`, async () => {
      const script = [lost, listed(Date.now()), withoutParts, removed, begun];
      using endpoint = await scripted(isKnown ? [found, ...script] : script, {
        clock: aheadBy(aheadMs),
      });
      if (isKnown) await endpoint.store.head("other", signal);
      assert.equal(await endpoint.store.createUpload("k", NONCE, signal), "second");
      assert.equal(endpoint.asked.at(-2), "DELETE /bkt/k?uploadId=first");
    });
  }
}

test("an upload that is older by the clock of S3 is left alone, whatever ours says", async () => {
  using endpoint = await scripted([found, lost, listed(Date.now() - MINUTE_MS), begun], {
    clock: aheadBy(10 * MINUTE_MS),
  });
  await endpoint.store.head("other", signal);
  assert.equal(await endpoint.store.createUpload("k", NONCE, signal), "second");
  assert.equal(endpoint.asked.length, 4);
});

const OUR_MS = Date.parse("2026-11-15T12:00:00Z");
const dated = (atMs: number) => new Map([["date", new Date(atMs).toUTCString()]]);

test("without an answer the clock of S3 may be as far behind ours as it accepts", () => {
  assert.equal(new ServerClock().earliestMs(OUR_MS), OUR_MS - 15 * MINUTE_MS);
});

test("a date in an answer tells the clock of S3 from then on", () => {
  const clock = new ServerClock();
  clock.note(dated(OUR_MS - 3 * MINUTE_MS), OUR_MS);
  const atMs = clock.earliestMs(OUR_MS);
  assert(atMs >= OUR_MS - 3 * MINUTE_MS && atMs < OUR_MS - 2 * MINUTE_MS, `${atMs}`);
});

test("a date ahead of our clock is not trusted more than our clock", () => {
  const clock = new ServerClock();
  clock.note(dated(OUR_MS + 3 * MINUTE_MS), OUR_MS); // a proxy's, perhaps
  assert.equal(clock.earliestMs(OUR_MS), OUR_MS);
});

// prettier-ignore
const odd: [what: string, headers: ReadonlyMap<string, string>][] = [
  ["is missing",                   new Map()],
  ["is no date",                   new Map([["date", "yesterday"]])],
  ["S3 would not have accepted",   dated(OUR_MS - 16 * MINUTE_MS)],
  ["comes from a cache",           new Map([...dated(OUR_MS), ["age", "7"]])],
];
for (const [what, headers] of odd) {
  test(`a date that ${what} tells nothing`, () => {
    const clock = new ServerClock();
    clock.note(headers, OUR_MS);
    assert.equal(clock.earliestMs(OUR_MS), OUR_MS - 15 * MINUTE_MS);
  });
}

test("without signatures S3 never refuses a clock: its date is believed", () => {
  const clock = new ServerClock();
  clock.note(dated(OUR_MS - 60 * MINUTE_MS), undefined);
  assert(clock.earliestMs(OUR_MS) < OUR_MS - 59 * MINUTE_MS);
});

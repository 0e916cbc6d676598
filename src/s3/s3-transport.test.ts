import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { locate } from "./s3-location.ts";
import { fails, scripted, signal } from "./test-endpoint.ts";
import type { Answer } from "./test-endpoint.ts";

const HOUR_MS = 3_600_000;
const LIMIT_MS = 15 * 60_000;
const NAMED = { method: "GET", key: "k" } as const;
const UNNAMED = { method: "HEAD", key: "k" } as const;
const done: Answer = (response) => response.writeHead(200, { etag: '"e"' }).end();

const bare: Answer = (response) => response.writeHead(403).end();
const aheadBy = (aheadMs: number) => () => Date.now() + aheadMs;

function logged() {
  const messages: string[] = [];
  const write = (_facts: object | string, msg = "") => void messages.push(msg);
  const log: Log = { debug: write, info: write, warn: write, error: write };
  return { log, messages };
}

/** Compares x-amz-date with its own clock, as S3 does. */
function strictClock(now: () => number, tells: "date" | "document"): Answer {
  return (response, request) => {
    const date = new Date(now()).toUTCString();
    const text = String(request.headers["x-amz-date"]);
    const signedMs = Date.parse(
      text.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, "$1-$2-$3T$4:$5:$6Z"),
    );
    if (Math.abs(signedMs - now()) < LIMIT_MS) return done(response, request);
    const time = new Date(now()).toISOString();
    const told = tells === "document" ? `<ServerTime>${time}</ServerTime>` : "";
    response.writeHead(403, tells === "document" ? { date: "" } : { date });
    response.end(`<Error><Code>RequestTimeTooSkewed</Code><Message>m</Message>${told}</Error>`);
  };
}

for (const tells of ["date", "document"] as const) {
  for (const aheadMs of [2 * HOUR_MS, -2 * HOUR_MS]) {
    const title = `a clock that is ${aheadMs / HOUR_MS} hours off is corrected by the server's ${tells}`;
    test(title, async () => {
      const server = strictClock(Date.now, tells);
      const { log, messages } = logged();
      const clock = aheadBy(aheadMs);
      using endpoint = await scripted([server, server, server, server], { clock, log });
      await endpoint.transport.send(NAMED, signal);
      await endpoint.transport.send(NAMED, signal);
      assert.equal(endpoint.asked.length, 3, "the second request is right at once");
      assert.deepEqual(messages, ["local clock differs from that of S3"]);
    });
  }
}

test("an answer to HEAD has no document: its date tells", async () => {
  const server = strictClock(Date.now, "date");
  const clock = aheadBy(HOUR_MS);
  using endpoint = await scripted([server, server], { clock });
  await endpoint.transport.send(UNNAMED, signal);
  assert.equal(endpoint.asked.length, 2);
});

test("a server's clock that changes later is learned again", async () => {
  let offMs = 0;
  const server = strictClock(() => Date.now() + offMs, "date");
  using endpoint = await scripted([server, server, server, server, server]);
  for (offMs of [0, HOUR_MS, -HOUR_MS]) await endpoint.transport.send(NAMED, signal);
  assert.equal(endpoint.asked.length, 5);
});

test("a refusal for any other reason is final, whatever the clocks say", async () => {
  const date = new Date(Date.now() + HOUR_MS).toUTCString();
  const denied: Answer = (response, request) => {
    response.setHeader("date", date);
    fails(403, "AccessDenied")(response, request);
  };
  const wrong = fails(403, "RequestTimeTooSkewed"); // with a date that is that of our clock
  using endpoint = await scripted([denied, bare, wrong]);
  for (const _ of [1, 2, 3]) {
    await assert.rejects(endpoint.transport.send(NAMED, signal), { kind: "denied" });
  }
  assert.equal(endpoint.asked.length, 3);
});

/** Refuses what is signed for another region than its own, as S3 does. */
function strictRegion(region: string, tells: "header" | "document"): Answer {
  return (response, request) => {
    const [, signedFor] = /Credential=[^/]+\/\d+\/([^/]+)\/s3/.exec(authorizationOf(request)) ?? [];
    if (signedFor === region) return done(response, request);
    const headers = tells === "header" ? { "x-amz-bucket-region": region } : {};
    const told = tells === "document" ? `<Region>${region}</Region>` : "";
    const code = tells === "header" ? "PermanentRedirect" : "AuthorizationHeaderMalformed";
    response.writeHead(tells === "header" ? 301 : 400, headers);
    response.end(`<Error><Code>${code}</Code><Message>m</Message>${told}</Error>`);
  };
}

function authorizationOf({ headers }: { headers: { authorization?: string | undefined } }): string {
  return headers.authorization ?? "";
}

/** Asks an endpoint at its one address, whatever the region is. */
function rerouting(url: () => string) {
  return (region: string) => ({
    location: locate({ bucket: "bkt", region, endpointUrl: url(), forcePathStyle: true }),
  });
}

for (const tells of ["header", "document"] as const) {
  test(`the region that S3 names in a ${tells} is used from then on`, async () => {
    const server = strictRegion("eu-x", tells);
    let url = "";
    const { log, messages } = logged();
    const reroute = rerouting(() => url);
    using endpoint = await scripted([server, server, server, server, server], { reroute, log });
    url = endpoint.endpointUrl;
    await Promise.all([1, 2].map(() => endpoint.transport.send(NAMED, signal)));
    await endpoint.transport.send(NAMED, signal);
    assert.equal(endpoint.asked.length, 5);
    assert.deepEqual(messages, ["bucket region detected"]);
  });
}

test("a HEAD that is refused without a word leads to a request that names the region", async () => {
  const server = strictRegion("eu-x", "document");
  let url = "";
  const reroute = rerouting(() => url);
  using endpoint = await scripted([server, server, server, server], { reroute });
  url = endpoint.endpointUrl;
  await endpoint.transport.send(UNNAMED, signal);
  assert.deepEqual(endpoint.asked, [
    "HEAD /bkt/k",
    "GET /bkt/?list-type=2&max-keys=0",
    "GET /bkt/?list-type=2&max-keys=0",
    "HEAD /bkt/k",
  ]);
});

test("a region that was chosen is not changed: the error names the right one", async () => {
  const server = strictRegion("eu-x", "document");
  using endpoint = await scripted([server, server]);
  await assert.rejects(
    endpoint.transport.send(NAMED, signal),
    (error) =>
      error instanceof Failure && error.kind === "invalid" && /use region eu-x/.test(error.message),
  );
  assert.equal(endpoint.asked.length, 1);
});

test("a region that is refused too is an error, not a loop", async () => {
  let named = 0;
  const fickle: Answer = (response) => {
    response.writeHead(301, { "x-amz-bucket-region": `r-${named++}` }).end();
  };
  let url = "";
  const reroute = rerouting(() => url);
  using endpoint = await scripted([fickle, fickle, fickle, fickle], { reroute });
  url = endpoint.endpointUrl;
  await assert.rejects(endpoint.transport.send(NAMED, signal), /use region r-1/);
  assert.equal(endpoint.asked.length, 2);
});

test("headers that proxies rewrite are not signed", async () => {
  let signed = "";
  const server: Answer = (response, request) => {
    [, signed = ""] = /SignedHeaders=([^,]+)/.exec(authorizationOf(request)) ?? [];
    done(response, request);
  };
  using endpoint = await scripted([server], { extraHeaders: { via: "1.1 p" } });
  const headers = { range: "bytes=0-1", "if-match": '"e"', "content-type": "text/plain" };
  await endpoint.transport.send({ method: "PUT", key: "k", headers }, signal);
  const expected = "content-type;host;if-match;range;x-amz-content-sha256;x-amz-date";
  assert.equal(signed, expected);
});

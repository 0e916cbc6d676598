import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { createLog } from "../base/pino-log.ts";
import { KubeClient } from "./kube-client.ts";
import type { Selection } from "./kube-client.ts";
import { PODS } from "./resource.ts";
import { WatchedList } from "./watched-list.ts";

type Answer = (response: ServerResponse, url: URL) => void;
const log = createLog("error", {});

const nameOf = (raw: { metadata?: { name?: string } }) => raw.metadata?.name;

/**
 * A server that answers lists and watches as scripted, one answer per request, the last for all.
 */
async function scripted(lists: Answer[], watches: Answer[], selection: Selection = {}) {
  const asked: string[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    const url = new URL(request.url ?? "", "http://x");
    const watching = url.searchParams.has("watch");
    asked.push(watching ? `watch ${url.searchParams.get("resourceVersion")}` : "list");
    const script = watching ? watches : lists;
    (script.length > 1 ? script.shift() : script[0])?.(response, url);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const stop = new AbortController();
  const access = {
    server: new URL(`http://127.0.0.1:${port}`),
    tls: {},
    headers: async () => ({}),
  };
  const client = new KubeClient(access, { requestMs: 5_000, watchMs: 100 });
  const of = { resource: PODS, selection, project: nameOf };
  const list = new WatchedList({ client, ...of, log, backOffMs: 1 });
  const changes: string[] = [];
  list.onChange((key, now, before) => changes.push(`${key} ${before ?? "-"}>${now ?? "-"}`));
  const following = list.start(stop.signal);
  return {
    list,
    asked,
    changes,
    signal: AbortSignal.timeout(5_000),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await following;
      client[Symbol.dispose]();
      server.closeAllConnections();
      server.close();
    },
  };
}

const pod = (name: string, version: string) => ({
  metadata: { namespace: "ns", name, resourceVersion: version },
});
const listOf = (version: string, ...items: object[]): Answer => {
  const body = JSON.stringify({ metadata: { resourceVersion: version }, items });
  return (response) => response.end(body);
};
const lines =
  (...events: object[]): Answer =>
  (response) => {
    for (const event of events) response.write(`${JSON.stringify(event)}\n`);
  };
const andEnd =
  (answer: Answer): Answer =>
  (response, url) => {
    answer(response, url);
    response.end();
  };
const added = (name: string, version: string) => ({ type: "ADDED", object: pod(name, version) });
const silent: Answer = (response) => response.flushHeaders();

const garbage: Answer = (response) => response.write("{oops\n");
const away: Answer = (response) => {
  response.statusCode = 503;
  response.end("no");
};
const unknown: Answer = (response) => {
  response.statusCode = 404;
  response.end("404 page not found");
};
const pieces: Answer = (response) => {
  const text = `${JSON.stringify(added("ä", "11"))}\n`;
  const bytes = Buffer.from(text);
  const middle = bytes.indexOf(Buffer.from("ä")) + 1; // inside the letter
  response.write(bytes.subarray(0, middle));
  setImmediate(() => response.write(bytes.subarray(middle)));
};
const page: Answer = (response, url) => {
  const last = url.searchParams.get("continue") === "more";
  const metadata = { resourceVersion: "10", ...(last ? {} : { continue: "more" }) };
  const items = [last ? pod("b", "2") : pod("a", "1")];
  response.end(JSON.stringify({ metadata, items }));
};

test("a list is followed by a watch from its version", async () => {
  const watch = lines(added("b", "11"), { type: "DELETED", object: pod("a", "12") });
  await using world = await scripted([listOf("10", pod("a", "9"))], [watch, silent]);
  await world.list.until((all) => (all.get("ns/a") ? undefined : all.get("ns/b")), world.signal);
  assert.deepEqual(world.changes, ["ns/a ->a", "ns/b ->b", "ns/a a>-"]);
  assert.deepEqual(world.asked.slice(0, 2), ["list", "watch 10"]);
});

test("a forgotten version is listed anew, and only what changed is told", async () => {
  const gone = andEnd(lines({ type: "ERROR", object: { code: 410, message: "too old" } }));
  const first = listOf("10", pod("a", "1"), pod("b", "2"));
  const second = listOf("20", pod("b", "2"), pod("c", "15"));
  await using world = await scripted([first, second], [gone, silent]);
  await world.list.until((all) => all.get("ns/c"), world.signal);
  assert.deepEqual(world.changes, ["ns/a ->a", "ns/b ->b", "ns/a a>-", "ns/c ->c"]);
});

test("a watch that breaks goes on from the last version it saw, bookmarks included", async () => {
  const bookmark = { type: "BOOKMARK", object: { metadata: { resourceVersion: "17" } } };
  const breaks: Answer = (response, url) => {
    lines(added("a", "11"), bookmark)(response, url);
    setImmediate(() => response.destroy());
  };
  await using world = await scripted([listOf("10")], [breaks, lines(added("b", "18"))]);
  await world.list.until((all) => all.get("ns/b"), world.signal);
  assert.deepEqual(world.asked.slice(0, 3), ["list", "watch 10", "watch 17"]);
});

test("an unknown kind is an answer, a server that is away gives none", async () => {
  await using world = await scripted([away, away, unknown, listOf("10")], [silent]);
  await world.list.answered;
  assert.deepEqual(world.asked, ["list", "list", "list"]);
  assert.equal(world.list.fault?.kind, "absent");
  await world.list.synced;
  assert.equal(world.list.fault, undefined);
});

test("a connection that falls silent is given up", async () => {
  await using world = await scripted([listOf("10")], [silent, lines(added("a", "11"))]);
  assert.equal(await world.list.until((all) => all.get("ns/a"), world.signal), "a");
});

test("a line that is not JSON is a fault, and the watch goes on", async () => {
  await using world = await scripted([listOf("10")], [garbage, lines(added("a", "11"))]);
  assert.equal(await world.list.until((all) => all.get("ns/a"), world.signal), "a");
});

test("an event may come in pieces", async () => {
  await using world = await scripted([listOf("10")], [pieces]);
  assert.equal(await world.list.until((all) => all.get("ns/ä"), world.signal), "ä");
});

test("a server that is away for long is asked for a fresh list", async () => {
  const watches = [away, away, away, away, away, away, silent];
  await using world = await scripted([listOf("10"), listOf("20", pod("a", "19"))], watches);
  assert.equal(await world.list.until((all) => all.get("ns/a"), world.signal), "a");
});

test("a list comes in pages", async () => {
  await using world = await scripted([page], [silent]);
  await world.list.synced;
  assert.deepEqual(Array.from(world.list.values()), ["a", "b"]);
});

/** A watch that tells when it was opened, and sends when it is told to. */
function heldWatch(send: Answer) {
  const opened = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  const answer: Answer = (response, url) => {
    response.flushHeaders();
    opened.resolve();
    void go.promise.then(() => send(response, url));
  };
  return { answer, opened: opened.promise, go: () => go.resolve() };
}

test("a selection comes in one piece: by pages it would not come from a cache", async () => {
  const query = Promise.withResolvers<string>();
  const list: Answer = (response, url) => {
    query.resolve(url.search);
    listOf("10", pod("a", "9"))(response, url);
  };
  const selection = { fieldSelector: "spec.nodeName=n1" };
  await using world = await scripted([list], [silent], selection);
  await world.list.synced;
  assert.equal(await query.promise, "?fieldSelector=spec.nodeName%3Dn1");
});

test("the answer to a write is there at once, and is not told twice", async () => {
  const watch = heldWatch(
    lines(added("b", "11"), added("a", "12"), added("a", "13"), added("c", "14")),
  );
  await using world = await scripted([listOf("10")], [watch.answer]);
  await watch.opened;
  world.list.wrote(pod("a", "13"));
  world.list.wrote(pod("a", "12")); // an answer that was overtaken
  assert.equal(world.list.get("ns/a"), "a");
  watch.go();
  await world.list.until((all) => all.get("ns/c"), world.signal);
  assert.deepEqual(world.changes, ["ns/a ->a", "ns/b ->b", "ns/c ->c"]);
});

test("an answer that comes after the watch has told of it is of no use", async () => {
  const watch = lines(added("a", "11"), { type: "DELETED", object: pod("a", "12") });
  await using world = await scripted([listOf("9")], [watch]);
  await world.list.until((all) => (all.get("ns/a") ? true : undefined), world.signal);
  await world.list.until((all) => (all.get("ns/a") ? undefined : true), world.signal);
  world.list.wrote(pod("a", "11"));
  assert.equal(world.list.get("ns/a"), undefined);
});

test("what was written is followed like everything else: changed, gone, listed anew", async () => {
  const gone = { type: "DELETED", object: pod("a", "12") };
  const forgotten = { type: "ERROR", object: { code: 410, message: "too old" } };
  const watch = heldWatch(andEnd(lines(gone, forgotten)));
  const lists = [listOf("10"), listOf("20", pod("b", "15"))];
  await using world = await scripted(lists, [watch.answer, silent]);
  await watch.opened;
  for (const name of ["a", "b"]) world.list.wrote(pod(name, "11"));
  world.list.wrote(pod("c", "19")); // deleted again before the list
  watch.go();
  await world.list.until((all) => (all.get("ns/c") ? undefined : true), world.signal);
  const told = ["ns/a ->a", "ns/b ->b", "ns/c ->c", "ns/a a>-", "ns/c c>-", "ns/b b>b"];
  assert.deepEqual(world.changes, told);
});

test("waiting ends with its signal", async () => {
  await using world = await scripted([listOf("10")], [silent]);
  const abort = new AbortController();
  const waiting = world.list.until(() => undefined, abort.signal);
  abort.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
});

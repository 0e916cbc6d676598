import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { createLog } from "../base/pino-log.ts";
import { PODS } from "./resource.ts";
import { WatchHealth } from "./watch-health.ts";
import { WatchedList } from "./watched-list.ts";
import type { WatchedListOptions } from "./watched-list.ts";

type Client = WatchedListOptions<object, string>["client"];

const log = createLog("error", {});
log.level = "silent";
const MINUTE_MS = 60_000;
const EMPTY = { metadata: { resourceVersion: "1" }, items: [] };
const away = () => Promise.reject(new Failure("remote", "away"));
const never = () => new Promise<never>(() => {});

interface Answers {
  list(): Promise<typeof EMPTY>;
  watch(): Promise<void>;
}

/** A list on a client whose answers the test gives; the clock is the test's too. */
function follow(answers: Answers, clock = { nowMs: 0 }) {
  const watches = new WatchHealth(() => clock.nowMs);
  const client: Client = {
    watches,
    list: () => answers.list(),
    async *watch(_resource, _selection, _signal, opened) {
      opened?.();
      await answers.watch();
      yield { type: "BOOKMARK", object: { metadata: { resourceVersion: "2" } } };
    },
  };
  const stop = new AbortController();
  const list = new WatchedList({ client, resource: PODS, project: () => "", log, backOffMs: 1 });
  return { clock, watches, list, stop, following: list.start(stop.signal) };
}

test("a watch is told as unsynced until it is listed, and closed with its list", async () => {
  const listed = Promise.withResolvers<typeof EMPTY>();
  const watched = Promise.withResolvers<void>();
  const { watches, list, stop, following } = follow({
    list: () => listed.promise,
    watch: () => watched.promise,
  });
  assert.deepEqual(watches.unsynced(), ["watch of pods: not listed yet"]);
  listed.resolve(EMPTY);
  await list.synced;
  assert.deepEqual([watches.unsynced(), watches.faults(), watches.hanging()], [[], [], []]);
  stop.abort();
  watched.resolve();
  await following;
});

test("a server that is away is a fault, never a loop that hangs; and over when it answers", async () => {
  const gone = Promise.withResolvers<void>();
  let state: "away" | "there" = "away";
  let faults = 0;
  const clock = { nowMs: 0 };
  const answers = {
    list() {
      clock.nowMs += MINUTE_MS; // ten minutes of it
      if (state === "there") return Promise.resolve(EMPTY);
      if (++faults === 10) gone.resolve();
      return away();
    },
    watch: () => Promise.resolve(),
  };
  const { watches, list, stop, following } = follow(answers, clock);
  await gone.promise;
  assert.deepEqual(watches.hanging(), []);
  assert.deepEqual(watches.unsynced(), ["watch of pods: not listed yet: away"]);
  state = "there";
  await list.synced;
  assert.deepEqual([watches.unsynced(), watches.faults()], [[], []]);
  stop.abort();
  await following;
  assert.deepEqual(watches.unsynced(), []);
});

test("a watch that breaks is a fault until the server agrees to the next one", async () => {
  const broke = Promise.withResolvers<void>();
  const again = Promise.withResolvers<void>();
  let watched = 0;
  const { watches, list, stop, following } = follow({
    list: () => Promise.resolve(EMPTY),
    async watch() {
      watched += 1;
      if (watched === 1) return away();
      broke.resolve();
      return again.promise;
    },
  });
  await list.synced;
  await broke.promise;
  assert.deepEqual(watches.faults(), [], "opened again, though no event has come yet");
  stop.abort();
  again.resolve();
  await following;
});

test("a loop that gives no sign for five minutes hangs", async () => {
  const { clock, watches, list } = follow({ list: () => Promise.resolve(EMPTY), watch: never });
  await list.synced;
  clock.nowMs = 5 * MINUTE_MS;
  assert.deepEqual(watches.hanging(), []);
  clock.nowMs += 1;
  assert.deepEqual(watches.hanging(), ["watch of pods: no sign of life for 300001 ms"]);
});

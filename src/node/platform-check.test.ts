import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { EventWriter } from "../kube/event-writer.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { KubeEvent, KubeNode } from "../kube/resource.ts";
import { PlatformCheck } from "./platform-check.ts";
import type { LocalPlatform } from "./platform-check.ts";

const CURRENT: LocalPlatform = { kernel: "6.12.0", missingCalls: [], cgroupVersion: 2 };
const HALF_HOUR_MS = 1_800_000;
const BELOW = "node is below the supported platform";

interface Versions {
  kubelet: string;
  /** Undefined: /version is forbidden. */
  apiServer: string | undefined;
  /** The number of events whose write fails from now on. */
  failedEvents?: number;
}

/** A check of a node with these versions, read again at once; and all that it has said. */
function playedCheck(versions: Versions, local: LocalPlatform) {
  const said: string[] = [];
  const waiting = new Set<() => void>();
  const say = (line: string) => {
    said.push(line);
    for (const look of waiting) look();
  };
  const logAt = (level: string) => (facts: object | string, msg?: string) => {
    if (msg !== undefined) say(`${level}: ${msg}: ${String(Object(facts).reason ?? "")}`);
  };
  const log: Log = {
    debug: () => undefined,
    info: logAt("info"),
    warn: logAt("warn"),
    error: logAt("error"),
  };
  let checks = 0;
  const client = {
    async find() {
      checks += 1;
      for (const look of waiting) look();
      const nodeInfo = { kubeletVersion: versions.kubelet };
      return { metadata: { uid: "node-uid" }, status: { nodeInfo } } as KubeNode;
    },
    async serverVersion() {
      if (versions.apiServer === undefined) throw new Failure("denied", "/version is forbidden");
      return versions.apiServer;
    },
    async create(_resource: object, { reason, note }: KubeEvent) {
      const { failedEvents = 0 } = versions;
      versions.failedEvents = Math.max(0, failedEvents - 1);
      if (failedEvents > 0) throw new Failure("remote", "the API server is away");
      say(`event: ${reason}: ${note}`);
    },
  } as unknown as Pick<KubeClient, "create" | "find" | "serverVersion">;
  const problems: string[][] = [];
  const check = new PlatformCheck({
    client,
    nodeName: "n1",
    events: new EventWriter(client, { controller: "c", instance: "n1" }, log),
    log,
    local,
    everyMs: 1,
    found: (shortfalls) => problems.push(shortfalls.map(({ words }) => words)),
  });
  const untilSo = (isSo: () => boolean) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = () => {
      if (isSo()) resolve();
    };
    waiting.add(look);
    look();
    return promise;
  };
  const until = (line: RegExp, times = 1) =>
    untilSo(() => said.filter((one) => line.test(one)).length >= times);
  /** Resolves after a whole check: the second from now on begins when the first has ended. */
  const untilChecked = () => {
    const wanted = checks + 2;
    return untilSo(() => checks >= wanted);
  };
  return { check, said, problems, until, untilChecked };
}

test("a node whose kubelet is upgraded in place becomes ready by itself", async () => {
  const versions: Versions = { kubelet: "v1.30.14", apiServer: "v1.31.0" };
  const { check, said, problems, until } = playedCheck(versions, CURRENT);
  const stop = new AbortController();
  const following = check.follow(stop.signal);
  await until(/^event: UnsupportedPlatform: the kubelet is v1\.30\.14/);
  versions.kubelet = "v1.31.0";
  await until(/node has the supported platform/);
  assert.deepEqual(problems.at(-1), []);
  versions.apiServer = "v1.30.1";
  await until(/^event: UnsupportedPlatform: the API server is v1\.30\.1/);
  stop.abort();
  await following;
  const what = said.map((line) => line.split(":").slice(0, 2).join(":"));
  assert.deepEqual(what, [
    `error: ${BELOW}`,
    "event: UnsupportedPlatform",
    "info: node has the supported platform",
    `error: ${BELOW}`,
    "event: UnsupportedPlatform",
  ]);
});

test("what the node lacks is said without the API server", async () => {
  const old: LocalPlatform = { ...CURRENT, kernel: "5.4.0", missingCalls: ["openat2"] };
  const versions: Versions = { kubelet: "v1.31.0", apiServer: undefined };
  const { check, said, problems, until } = playedCheck(versions, old);
  assert.match(said[0] ?? "", /^error: node is below the supported platform: Linux 5\.4\.0 lacks/);
  const stop = new AbortController();
  const following = check.follow(stop.signal);
  await until(/^event: UnsupportedPlatform: Linux 5\.4\.0 lacks openat2/);
  stop.abort();
  await following;
  assert.equal(said.length, 2, "each is said once");
  assert.equal(problems.at(-1)?.length, 1);
});

const TIMEOUT = { timeout: 10_000 };
const EVENT = /^event: UnsupportedPlatform: the kubelet is v1\.30\.14/;

test("an event that could not be written is written by a later check", TIMEOUT, async (t) => {
  const versions: Versions = { kubelet: "v1.30.14", apiServer: "v1.31.0", failedEvents: 3 };
  const { check, until } = playedCheck(versions, CURRENT);
  const stop = new AbortController();
  t.after(() => stop.abort());
  const following = check.follow(stop.signal);
  await until(EVENT);
  stop.abort();
  await following;
});

test("the event is written again every half hour while the shortfall lasts", TIMEOUT, async (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: 1_000_000 });
  const versions: Versions = { kubelet: "v1.30.14", apiServer: "v1.31.0" };
  const { check, said, until, untilChecked } = playedCheck(versions, CURRENT);
  const stop = new AbortController();
  t.after(() => stop.abort());
  const following = check.follow(stop.signal);
  await until(EVENT);
  t.mock.timers.tick(HALF_HOUR_MS - 1);
  await untilChecked();
  assert.equal(said.filter((line) => EVENT.test(line)).length, 1);
  t.mock.timers.tick(1);
  await until(EVENT, 2);
  versions.kubelet = "v1.31.0";
  await until(/node has the supported platform/);
  t.mock.timers.tick(HALF_HOUR_MS);
  await untilChecked();
  stop.abort();
  await following;
  assert.equal(said.filter((line) => EVENT.test(line)).length, 2);
});

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import type { StdioOptions } from "node:child_process";
import { once } from "node:events";
import { fstatSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { untilBeneath } from "../../src/sys/beneath.ts";
import type { Place } from "../../src/sys/beneath.ts";
import { assertNothingLeaked, openDescriptors } from "./open-descriptors.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const NAMES = ["pod", "volumes", "comm", "socket"];
const WITHIN_MS = 5_000;

function code(expected: string) {
  return (error: unknown) => error instanceof Error && "code" in error && error.code === expected;
}

const inodeOf = (place: Place) => fstatSync(place.fd).ino;

const takeFresh = (place: Place) => (fstatSync(place.fd).size === 5 ? undefined : "fresh");

/** The wait is under way: what follows is seen through events, not through the first look. */
async function waiting(root: string, signal = AbortSignal.timeout(WITHIN_MS), names = NAMES) {
  const found = untilBeneath(root, names, inodeOf, signal);
  found.catch(() => {});
  await nextTurn();
  return { found };
}

test("what is there is found at once", async () => {
  await using root = await temporaryDirectory();
  mkdirSync(join(root.path, "pod/volumes/comm"), { recursive: true });
  writeFileSync(join(root.path, "pod/volumes/comm/socket"), "");
  const before = openDescriptors();
  assert(await untilBeneath(root.path, NAMES, inodeOf, AbortSignal.timeout(WITHIN_MS)));
  await assertNothingLeaked(before);
});

test("what appears step by step is found, and nothing stays open", async () => {
  await using root = await temporaryDirectory();
  const before = openDescriptors();
  const { found } = await waiting(root.path);
  for (const name of ["pod", "pod/volumes", "pod/volumes/comm"]) {
    mkdirSync(join(root.path, name));
    await nextTurn();
  }
  writeFileSync(join(root.path, "pod/volumes/comm/socket"), "");
  assert(await found);
  await assertNothingLeaked(before);
});

test("made in one go: no step is missed", async () => {
  await using root = await temporaryDirectory();
  const { found } = await waiting(root.path);
  mkdirSync(join(root.path, "pod/volumes/comm"), { recursive: true });
  writeFileSync(join(root.path, "pod/volumes/comm/socket"), "");
  assert(await found);
});

test("a memory volume that is mounted on the directory later is looked into", async () => {
  await using root = await temporaryDirectory();
  const comm = join(root.path, "pod/volumes/comm");
  mkdirSync(comm, { recursive: true });
  const { found } = await waiting(root.path);
  execFileSync("mount", ["-t", "tmpfs", "tmpfs", comm]);
  await nextTurn();
  writeFileSync(join(comm, "socket"), "");
  assert(await found);
});

test("a directory that is removed and made anew is followed", async () => {
  await using root = await temporaryDirectory();
  const volumes = join(root.path, "pod/volumes");
  mkdirSync(join(volumes, "comm"), { recursive: true });
  const { found } = await waiting(root.path);
  rmSync(volumes, { recursive: true });
  await nextTurn();
  mkdirSync(join(volumes, "comm"), { recursive: true });
  await nextTurn();
  writeFileSync(join(volumes, "comm/socket"), "");
  assert(await found);
});

test("while `take` wants another, it waits on", async () => {
  await using root = await temporaryDirectory();
  const path = join(root.path, "socket");
  writeFileSync(path, "stale");
  const found = untilBeneath(root.path, ["socket"], takeFresh, AbortSignal.timeout(WITHIN_MS));
  await nextTurn();
  writeFileSync(path, "other");
  await nextTurn();
  rmSync(path);
  writeFileSync(path, "new one");
  assert.equal(await found, "fresh");
});

// prettier-ignore
const hostile: [name: string, plant: (root: string) => void, errno: string][] = [
  ["a link in place of the last",    (root) => symlinkSync("/etc/passwd", join(root, "pod/volumes/comm/socket")), "ELOOP"],
  ["a link on the way",              (root) => symlinkSync("/etc", join(root, "pod/volumes/comm/dir")), "ELOOP"],
  ["a file in place of a directory", (root) => writeFileSync(join(root, "pod/volumes/comm/dir"), ""), "ENOTDIR"],
];
for (const [name, plant, errno] of hostile) {
  for (const when of ["before", "after"]) {
    test(`${name}, put there ${when} the wait began, is refused`, async () => {
      await using root = await temporaryDirectory();
      mkdirSync(join(root.path, "pod/volumes/comm"), { recursive: true });
      const names = name.includes("last") ? NAMES : ["pod", "volumes", "comm", "dir", "passwd"];
      const before = openDescriptors();
      if (when === "before") plant(root.path);
      const { found } = await waiting(root.path, undefined, names);
      if (when === "after") plant(root.path);
      await assert.rejects(found, code(errno));
      await assertNothingLeaked(before);
    });
  }
}

test("aborted waits end at once, and nothing stays open", async () => {
  await using root = await temporaryDirectory();
  const before = openDescriptors();
  const stop = new AbortController();
  const waits = await Promise.all(
    Array.from({ length: 50 }, () => waiting(root.path, stop.signal)),
  );
  stop.abort(new Error("enough"));
  for (const { found } of waits) await assert.rejects(found, /enough/);
  await assert.rejects(untilBeneath(root.path, NAMES, inodeOf, stop.signal), /enough/);
  await assertNothingLeaked(before);
});

/** Renames without end: to the name that is waited for and back, or other ones only. */
const FLOOD = `
  const { renameSync, writeFileSync, writeSync } = require("node:fs");
  const [, name, other] = process.argv;
  writeFileSync(name, "");
  writeSync(1, "on");
  for (;;) {
    renameSync(name, other);
    renameSync(other, name);
  }`;

for (const [what, name] of [
  ["of what is waited for", "socket"],
  ["of other things", "another"],
] as const) {
  test(`changes without end ${what} keep nobody from other work`, async () => {
    await using root = await temporaryDirectory();
    const comm = join(root.path, "pod/volumes/comm");
    mkdirSync(comm, { recursive: true });
    const stop = new AbortController();
    const found = untilBeneath(root.path, NAMES, () => undefined, stop.signal);
    const stdio: StdioOptions = ["ignore", "pipe", "inherit"];
    const words = ["--pdeathsig", "KILL", process.execPath, "-e", FLOOD, name, "draft"];
    const flood = spawn("setpriv", words, { cwd: comm, stdio });
    const ended = once(flood, "exit");
    try {
      await once(flood.stdout ?? flood, "data");
      const startedMs = performance.now();
      for (let turn = 0; turn < 20; turn += 1) await sleep(10);
      const tookMs = performance.now() - startedMs;
      assert.ok(tookMs < 2_000, `200 ms of other work took ${tookMs} ms`);
    } finally {
      flood.kill("SIGKILL");
      await ended;
      stop.abort();
      await assert.rejects(found);
    }
  });
}

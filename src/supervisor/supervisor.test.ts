import assert from "node:assert/strict";
import { mkdtempSync, openSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { createLog } from "../base/pino-log.ts";
import { Supervisor } from "./supervisor.ts";
import type { Recovery, SupervisorOptions } from "./supervisor.ts";

const program = join(import.meta.dirname, "test-engine.ts");
const log = createLog("silent", {});

/** A supervisor whose engines behave one after the other as the words say. */
function supervise(
  words: readonly string[],
  options: Partial<SupervisorOptions> = {},
  limits: { readonly containerBytes?: number } = {},
) {
  const directory = mkdtempSync(join(tmpdir(), "s3csi-supervisor-"));
  const file = (name: string) => openSync(join(directory, name), "a+");
  const diary = join(directory, "diary");
  const fds = { fuse: file("diary"), slots: file("slots"), journal: file("j"), spool: file("s") };
  const args = [diary, ...words];
  const spec = { program, args, env: {}, credentials: null, mountedByUs: true, ...limits };
  let next = Promise.withResolvers<Recovery>();
  const onRecovered = (recovery: Recovery) => {
    next.resolve(recovery);
    next = Promise.withResolvers<Recovery>();
  };
  const supervisor = new Supervisor(spec, fds, { log, onRecovered, ...options });
  return {
    supervisor,
    recovered: () => next.promise,
    diary: () => readFileSync(diary, "utf8").trim().split("\n"),
    /** Which of its descriptors are still open here. */
    held: () => readdirSync("/proc/self/fd").filter((fd) => linkOf(fd).startsWith(directory)),
    async [Symbol.asyncDispose]() {
      supervisor.kill();
      await supervisor.ended;
      rmSync(directory, { recursive: true });
    },
  };
}

function linkOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return ""; // the one that lists them
  }
}

test("a killed engine is followed by the next at once, with the cause; at last all is closed", async () => {
  await using mount = supervise(["serves"]);
  const { supervisor } = mount;
  await supervisor.ready;
  const former = supervisor.enginePid;
  const recovered = mount.recovered();
  process.kill(former, "SIGKILL");
  const { cause, attempts } = await recovered;
  assert.deepEqual({ cause, attempts }, { cause: "SIGKILL", attempts: 1 });
  assert.notEqual(supervisor.enginePid, former);
  assert.throws(() => process.kill(former, 0), "the old one is dead for certain");
  assert.equal(mount.held().length, 4);
  supervisor.finish();
  assert.equal(await supervisor.ended, 0);
  assert.deepEqual(mount.diary(), ["start serves new", "start serves resume", "finish serves"]);
  assert.deepEqual(mount.held(), []);
});

test("one that crashes by itself is tried again, with pauses", async () => {
  await using mount = supervise(["crashes", "crashes", "serves"]);
  const first = mount.recovered();
  await mount.supervisor.ready;
  assert.equal((await first).cause, "exit status 3");
  const second = await mount.recovered();
  assert.equal(second.cause, "exit status 3");
  assert(second.pauseMs >= 100, `after ${second.pauseMs} ms`);
});

test("a successor that can't reach S3 is tried again", async () => {
  await using mount = supervise(["crashes", "away", "dies", "serves"]);
  const recovered = mount.recovered();
  await mount.supervisor.ready;
  const { cause, attempts } = await recovered;
  assert.deepEqual({ cause, attempts }, { cause: "exit status 3", attempts: 3 });
});

test("a successor whose container is too small is tried again: its limit may be raised", async () => {
  await using mount = supervise(["crashes", "small", "serves"]);
  const recovered = mount.recovered();
  await mount.supervisor.ready;
  assert.equal((await recovered).attempts, 2);
});

for (const [word, giveUpAfterMs] of [
  ["invalid", 600_000],
  ["dies", 0],
] as const) {
  test(`there is no way (${word}): the mount is given up, and its descriptors with it`, async () => {
    await using mount = supervise(["crashes", word], { giveUpAfterMs });
    await mount.supervisor.ready;
    assert.equal(await mount.supervisor.ended, 1);
    assert.deepEqual(mount.diary(), ["start crashes new", `start ${word} resume`]);
    assert.deepEqual(mount.held(), []);
  });
}

test("what is told to finish while it is dead is finished by the next one", async () => {
  await using mount = supervise(["serves"]);
  await mount.supervisor.ready;
  process.kill(mount.supervisor.enginePid, "SIGKILL");
  mount.supervisor.finish();
  assert.equal(await mount.supervisor.ended, 0);
  assert.deepEqual(mount.diary(), ["start serves new", "start serves resume", "finish serves"]);
});

test("an engine that does not get by with its heap is followed by one with a larger heap", async () => {
  const small = { containerBytes: 128 << 20 };
  await using mount = supervise(["crashes", "remembers"], { giveUpAfterMs: 20_000 }, small);
  const recovered = mount.recovered();
  await mount.supervisor.ready;
  const { attempts } = await Promise.race([
    recovered,
    mount.supervisor.ended.then(() => assert.fail("given up")),
  ]);
  assert.equal(attempts, 2);
});

test("one that hangs is killed", async () => {
  await using mount = supervise(["hangs", "serves"], { askEveryMs: 400 });
  const recovered = mount.recovered();
  await mount.supervisor.ready;
  assert.equal((await recovered).cause, "SIGKILL");
});

test("one that does not speak as engines do is killed", async () => {
  await using mount = supervise(["crashes", "raves", "serves"]);
  const recovered = mount.recovered();
  await mount.supervisor.ready;
  assert.equal((await recovered).attempts, 2);
});

test("a replaced engine is followed by another program of the same name", async () => {
  await using mount = supervise(["serves"]);
  await mount.supervisor.ready;
  const former = mount.supervisor.enginePid;
  const recovered = mount.recovered();
  mount.supervisor.replaceEngine();
  assert.equal((await recovered).attempts, 1);
  assert.notEqual(mount.supervisor.enginePid, former);
});

test("one that ends in order is not followed by another", async () => {
  await using mount = supervise(["ends"]);
  await mount.supervisor.ready;
  assert.equal(await mount.supervisor.ended, 0);
  assert.deepEqual(mount.diary(), ["start ends new"]);
});

const inItsWords = (error: unknown) =>
  error instanceof Failure && error.kind === "remote" && error.message === "S3 is away";

test("the first engine's own words are told, and nobody follows", async () => {
  await using mount = supervise(["away", "serves"]);
  await assert.rejects(mount.supervisor.ready, inItsWords);
  assert.equal(await mount.supervisor.ended, 5);
  assert.deepEqual(mount.held(), []);
});

test("what is not wanted any more has no successor", async () => {
  await using mount = supervise(["serves"]);
  await mount.supervisor.ready;
  mount.supervisor.kill();
  assert.equal(await mount.supervisor.ended, 1);
  assert.deepEqual(mount.diary(), ["start serves new"]);
  assert.deepEqual(mount.held(), []);
});

test("what has never served can be killed", async () => {
  await using mount = supervise(["deaf"]);
  mount.supervisor.kill();
  await assert.rejects(mount.supervisor.ready, /the engine ended \(SIGKILL\) too early/);
  assert.equal(await mount.supervisor.ended, 1);
  assert.deepEqual(mount.held(), []);
});

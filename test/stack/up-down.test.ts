import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { run } from "../../tools/run.ts";
import { callSupervisor } from "../../tools/stack/supervisor-call.ts";
import { NOTHING, leftovers } from "./leftovers.ts";

const ROOT = join(import.meta.dirname, "../..");

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** The commands as a person types them, except for the Makefile's own set-up. */
async function tool(name: "up" | "down", env: NodeJS.ProcessEnv = process.env): Promise<Ended> {
  const child = spawn(process.execPath, [join(ROOT, "tools", `${name}.ts`)], { cwd: ROOT, env });
  let [out, err] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  const [code] = (await once(child, "close")) as [number];
  return { code, out, err };
}

/** A cluster that somebody works with is not the test's to stop. */
async function requireIdle(): Promise<void> {
  using call = await callSupervisor();
  assert.equal(call, undefined, "a cluster is up: `make down` first");
}

test("make up leaves a cluster that works, make down leaves nothing", async (t) => {
  await requireIdle();
  t.after(() => tool("down")); // also after a failure in between
  const idle = await tool("down");
  assert.deepEqual([idle.code, idle.err], [0, "  no cluster is up\n"]);

  const first = await tool("up");
  assert.equal(first.code, 0, first.err);
  assert.match(first.err, /node1 +Ready/);
  assert.match(
    first.err,
    /S3 server: http:\/\/\S+, region \S+\n {2}access key \S+, secret key \S+/,
  );
  const nodes = await run("sh", ["-ec", `${first.out}\nkubectl get nodes -o name`]);
  assert.equal(nodes, "node/node1\n", "the printed lines are all that a shell needs");

  const again = await tool("up");
  assert.deepEqual([again.code, again.out], [0, first.out]);
  assert.match(again.err, /already up/);

  const down = await tool("down");
  assert.equal(down.code, 0, down.err);
  assert.deepEqual(await leftovers("cluster"), NOTHING);
});

test("make down clears away after a supervisor that was killed with -9", async (t) => {
  await requireIdle();
  t.after(() => tool("down"));
  const up = await tool("up");
  assert.equal(up.code, 0, up.err);
  {
    using call = await callSupervisor();
    assert(call !== undefined);
    process.kill(call.facts.pid, "SIGKILL");
  }
  const down = await tool("down");
  assert.deepEqual([down.code, down.err], [0, "  cleared away what a killed cluster had left\n"]);
  assert.deepEqual(await leftovers("cluster"), NOTHING);
});

test("make up on a machine that lacks a program says so in one line", async () => {
  const bare = await tool("up", { PATH: dirname(process.execPath) });
  assert.equal(bare.code, 1);
  assert.match(bare.err, /^error: the local cluster needs the program \S+: install [^\n]+\n$/);
});

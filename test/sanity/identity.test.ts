import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:http2";
import { connect as connectSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { programs } from "../../tools/programs.ts";
import { run } from "../../tools/run.ts";

const IDENTITY_CASES = 3;
const MAIN = join(import.meta.dirname, "../../src/main.ts");

/** The program itself, as a process: csi-sanity is a Go client and sees only the socket. */
async function startController(dir: string) {
  const endpoint = `unix://${join(dir, "csi.sock")}`;
  const args = [MAIN, "controller", `--endpoint=${endpoint}`, "--reconcile=false"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  for await (const line of lines) if (line.includes("serving gRPC")) break;
  return {
    endpoint,
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      assert.deepEqual(await ended, [0, null], "SIGTERM ends it cleanly");
    },
  };
}

test("csi-sanity passes its Identity cases against the program", async () => {
  const dir = await mkdtemp(join(tmpdir(), "s3csi-sanity-"));
  try {
    await using controller = await startController(dir);
    const sanity = join(await programs("csi-test"), "csi-sanity");
    const args = ["--csi.endpoint", controller.endpoint, "--ginkgo.focus", "Identity Service"];
    const printed = await run(sanity, [...args, "--ginkgo.no-color"]);
    assert.match(printed, new RegExp(`${IDENTITY_CASES} Passed \\| 0 Failed`), printed);
  } finally {
    await rm(dir, { recursive: true });
  }
});

test("a client whose authority is the socket's path is served: the kubelet's watcher is one", async () => {
  const dir = await mkdtemp(join(tmpdir(), "s3csi-authority-"));
  try {
    await using controller = await startController(dir);
    const path = controller.endpoint.slice("unix://".length);
    const session = connect("http://localhost", { createConnection: () => connectSocket(path) });
    const stream = session.request({
      ":method": "POST",
      ":path": "/csi.v1.Identity/Probe",
      ":authority": encodeURIComponent(path),
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.end(Buffer.alloc(5)); // an empty message
    const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
    const [trailers] = (await once(stream.resume(), "trailers")) as [Record<string, unknown>];
    assert.equal(headers[":status"], 200);
    assert.equal(trailers["grpc-status"], "0");
    session.close();
  } finally {
    await rm(dir, { recursive: true });
  }
});

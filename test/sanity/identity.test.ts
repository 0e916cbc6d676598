import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:http2";
import { connect as connectSocket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { programs } from "../../tools/programs.ts";
import { run } from "../../tools/run.ts";
import { startController } from "./controller-process.ts";

const IDENTITY_CASES = 3;

test("csi-sanity passes its Identity cases against the program", async () => {
  await using controller = await startController();
  const sanity = join(await programs("csi-test"), "csi-sanity");
  const args = ["--csi.endpoint", controller.endpoint, "--ginkgo.focus", "Identity Service"];
  const printed = await run(sanity, [...args, "--ginkgo.no-color"]);
  assert.match(printed, new RegExp(`${IDENTITY_CASES} Passed \\| 0 Failed`), printed);
});

test("a client whose authority is the socket's path is served: the kubelet's watcher is one", async () => {
  await using controller = await startController();
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
});

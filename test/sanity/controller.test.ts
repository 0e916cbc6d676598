import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { ListBucketsCommand } from "@aws-sdk/client-s3";
import { Identity, Node } from "../../src/csi/gen/csi_pb.ts";
import { identityService } from "../../src/csi/identity.ts";
import { serve } from "../../src/csi/serve.ts";
import { nodeService } from "../../src/node/node-service.ts";
import { Volumes } from "../../src/node/volumes.ts";
import { DRIVER_NAME } from "../../src/volume/names.ts";
import { programs } from "../../tools/programs.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { TestNode, silentLog } from "../node/test-node.ts";
import { environmentOf } from "../provisioner/objects.ts";
import { startController } from "./controller-process.ts";

/** Those of csi-sanity that a driver without attach, snapshots and lists is asked at all. */
const CASES_MIN = 18;

test(
  "csi-sanity passes Identity and Controller with nothing left out by us, and leaves no bucket",
  { timeout: 120_000 },
  async () => {
    await using s3 = await startS3Server();
    await using controller = await startController(environmentOf(s3));
    const sanity = join(await programs("csi-test"), "csi-sanity");
    const focus = ["--ginkgo.focus", "Identity Service|Controller Service"];
    await using node = await nodeEndpoint();
    const sockets = [
      "--csi.controllerendpoint",
      controller.endpoint,
      "--csi.endpoint",
      node.endpoint,
    ];
    const args = [...sockets, ...focus, "--ginkgo.no-color"];
    const printed = await printedBy(sanity, args);
    const [, passed = "0"] = /(\d+) Passed \| 0 Failed/.exec(printed) ?? [];
    assert(Number(passed) >= CASES_MIN, printed);
    const { Buckets } = await clientOf(s3).send(new ListBucketsCommand({}));
    assert.deepEqual(Buckets ?? [], []);
  },
);

const never = () => new Promise<never>(() => {});
const unknown = { followProblem: never, attachmentsProblem: () => undefined };
/** Nothing is ever told. */
const untold = () => ({ [Symbol.dispose]() {} });

/** Whatever it ends with: what failed is told on stdout. */
async function printedBy(program: string, args: readonly string[]): Promise<string> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  return text(child.stdout);
}

/**
 * csi-sanity asks the node what it can, and unpublishes, when it tidies up behind each volume. What
 * it names is no pod's directory, which the real one refuses; nothing was ever published there.
 */
async function nodeEndpoint() {
  await using owned = new AsyncDisposableStack();
  const { kubeletPath, sources } = owned.use(await TestNode.start());
  const waits = { untilAssigned: never, untilScheduled: never, untilMoved: never };
  const pods = { pods: () => [], finishedPods: () => [], onPodFinished: untold };
  const held = { heldBackWhy: () => undefined, onAttachmentChange: untold };
  const view = {
    ...waits,
    ...pods,
    ...held,
    untilLeaving: never,
    isAssigned: () => false,
    ...unknown,
  };
  const volumes = new Volumes({ view, sources, env: {}, userAgent: "test", log: silentLog });
  const identity = identityService({ driverName: DRIVER_NAME, version: "1", controller: false });
  const real = nodeService({ nodeId: "node-1", kubeletPath, volumes, sources });
  const node = { ...real, nodeUnpublishVolume: () => ({}) };
  const endpoint = `unix://${join(kubeletPath, "csi.sock")}`;
  const routes: Parameters<typeof serve>[1] = (router) =>
    router.service(Identity, identity).service(Node, node);
  owned.use(await serve(endpoint, routes, silentLog));
  const all = owned.move();
  return { endpoint, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { Node, NodeServiceCapability_RPC_Type as Rpc } from "../csi/gen/csi_pb.ts";
import { nodeService } from "./node-service.ts";
import type { Volumes } from "./volumes.ts";

/** What the node says of itself needs no volumes. */
function clientFor(topology?: Readonly<Record<string, string>>) {
  const about = topology === undefined ? {} : { topology };
  const sources = { stateOf: () => undefined };
  const options = { nodeId: "n1", kubeletPath: "/k", volumes: {} as Volumes, sources };
  const service = nodeService({ ...options, ...about });
  return createClient(
    Node,
    createRouterTransport((router) => router.service(Node, service)),
  );
}

test("a node tells where it is by the labels that were chosen", async () => {
  const zone = { "topology.kubernetes.io/zone": "a" };
  const { nodeId, accessibleTopology } = await clientFor(zone).nodeGetInfo({});
  assert.equal(nodeId, "n1");
  assert.deepEqual(accessibleTopology?.segments, zone);
});

test("without labels a node has no place", async () => {
  assert.equal((await clientFor().nodeGetInfo({})).accessibleTopology, undefined);
});

test("it takes the group from the kubelet, and single writers, and tells how a volume is", async () => {
  const { capabilities } = await clientFor().nodeGetCapabilities({});
  const types = capabilities.map(({ type }) => type.value?.type);
  const { VOLUME_MOUNT_GROUP, SINGLE_NODE_MULTI_WRITER, GET_VOLUME_STATS, VOLUME_CONDITION } = Rpc;
  const offered = [
    VOLUME_MOUNT_GROUP,
    SINGLE_NODE_MULTI_WRITER,
    GET_VOLUME_STATS,
    VOLUME_CONDITION,
  ];
  assert.deepEqual(types, offered);
});

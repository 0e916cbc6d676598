import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { Node, VolumeCapability_AccessMode_Mode } from "../../src/csi/gen/csi_pb.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { RewritingProxy } from "../engine/rewriting-proxy.ts";
import { grpcClient } from "../node/grpc-client.ts";
import { secretFilesOf, SecretVolume } from "../node/secret-volume.ts";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { PlayedNode } from "./played-node.ts";

const NO_VARIABLES = { AWS_ACCESS_KEY_ID: "", AWS_SECRET_ACCESS_KEY: "" };

test("the node role uses the driver's Secret as it is now", { timeout: 120_000 }, async () => {
  await using owned = new AsyncDisposableStack();
  const server = await startS3Server();
  const alice = await server.addAccount("alice");
  const played = owned.use(await PlayedNode.start(async () => ({ ...server, ...alice })));
  await played.bucket.put("there", "content");
  const dir = owned.use(await temporaryDirectory());
  const secret = new SecretVolume(join(dir.path, "credentials"));
  const proxy = owned.use(await RewritingProxy.start(server.endpoint));
  const signers: string[] = [];
  proxy.rewrite = ({ headers }, answer) => {
    signers.push(/Credential=([^/]+)\//.exec(headers.authorization ?? "")?.[1] ?? "nobody");
    return answer;
  };
  const env = { ...NO_VARIABLES, AWS_ENDPOINT_URL: proxy.url };
  const service = await played.startService(env, [`--credentials-dir=${secret.path}`]);
  await played.volume("pv-1");
  const { target, volumeContext } = await played.workload("w-1", "pv-1");
  const node = grpcClient(Node, played.endpoint.slice("unix://".length));
  const publish = () =>
    node.nodePublishVolume({
      volumeId: "pv-1-handle",
      targetPath: target,
      volumeContext,
      volumeCapability: {
        accessMode: { mode: VolumeCapability_AccessMode_Mode.MULTI_NODE_MULTI_WRITER },
        accessType: { case: "mount", value: { mountFlags: ["allow-delete"] } },
      },
    });

  await assert.rejects(publish, (error) => {
    assert(error instanceof ConnectError);
    assert.equal(error.code, Code.FailedPrecondition);
    assert.match(
      error.message,
      /the driver has no credentials: access_key_id is missing; .*s3Cred/,
    );
    return true;
  });
  secret.update(secretFilesOf(alice));
  await publish();
  const read = () => fs.readFile(join(target, "there"), "utf8");
  assert.equal(await read(), "content");
  assert.deepEqual([...new Set(signers)], ["alice"]);

  secret.update(secretFilesOf(server));
  await service.logged("the engine has other keys");
  signers.length = 0;
  assert.equal(await read(), "content");
  assert.deepEqual([...new Set(signers)], [server.accessKeyId]);

  await node.nodeUnpublishVolume({ volumeId: "pv-1-handle", targetPath: target });
  await played.removeWorkload("w-1");
  await played.settled();
});

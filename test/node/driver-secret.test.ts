import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { credentialsFor } from "../../src/node/driver-credentials.ts";
import { watchDriverSecret } from "../../src/node/driver-secret-watch.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import type { PosixS3Server, S3Access } from "../../tools/stack/s3-server.ts";
import { RewritingProxy } from "../engine/rewriting-proxy.ts";
import { TestBucket } from "../engine/test-bucket.ts";
import { secretFilesOf, SecretVolume } from "./secret-volume.ts";
import { temporaryDirectory } from "./temporary-directory.ts";
import { silentLog, TestNode } from "./test-node.ts";
import { publishRequestFor, volumesOn } from "./test-volumes.ts";

const soon = () => AbortSignal.timeout(15_000);

/** The access key that a request is signed with. */
function signerOf({ headers }: IncomingMessage): string {
  return /Credential=([^/]+)\//.exec(headers.authorization ?? "")?.[1] ?? "nobody";
}

describe("the driver's Secret in a volume of the node service", () => {
  let server: PosixS3Server;
  let alice: S3Access;
  let bucket: TestBucket;
  before(async () => {
    server = await startS3Server();
    alice = await server.addAccount("alice");
    bucket = await TestBucket.start(async () => ({ ...server, ...alice })); // root may use it, too
    await bucket.put("there", "content");
  });
  after(() => bucket[Symbol.asyncDispose]());

  /** As the node role puts the parts together. */
  async function setUp() {
    await using owned = new AsyncDisposableStack();
    const dir = owned.use(await temporaryDirectory());
    const secret = new SecretVolume(join(dir.path, "credentials"));
    const proxy = owned.use(await RewritingProxy.start(server.endpoint));
    const signers: string[] = [];
    proxy.rewrite = (request, answer) => {
      signers.push(signerOf(request));
      return answer;
    };
    const driver = { credentialsDir: secret.path, env: { AWS_ENDPOINT_URL: proxy.url } };
    const node = owned.use(
      await TestNode.start({ driverKeys: () => credentialsFor("driver", {}, driver) }),
    );
    const refresh = () => void node.sources.refreshDriverKeys();
    owned.use(watchDriverSecret(secret.path, refresh, silentLog));
    const volumes = volumesOn(node, bucket, driver);
    const all = owned.move();
    return { node, secret, volumes, signers, [Symbol.asyncDispose]: () => all.disposeAsync() };
  }

  test("publish is refused before the Secret exists, and works afterwards", async () => {
    await using world = await setUp();
    const { node, secret, volumes } = world;
    node.pod().run();
    const request = publishRequestFor(node, bucket, "w-1");
    const message =
      "the driver has no credentials: access_key_id is missing; secret_access_key is missing; " +
      "create the Secret that the chart's s3CredentialSecret names, or give the volume its own " +
      "with authenticationSource: secret";
    await assert.rejects(volumes.publish(request, soon()), { kind: "refused", message });
    secret.update(secretFilesOf(alice));
    await volumes.publish(request, soon());
    assert.equal(await fs.readFile(join(request.target.path, "there"), "utf8"), "content");
    await volumes.unpublish(request.target);
  });

  test("a mount signs with the new access key after a rotation, and keeps it when the Secret is deleted", async () => {
    await using world = await setUp();
    const { node, secret, volumes, signers } = world;
    secret.update(secretFilesOf(alice));
    node.pod().run();
    const request = publishRequestFor(node, bucket, "w-1");
    await volumes.publish(request, soon());
    const read = () => fs.readFile(join(request.target.path, "there"), "utf8");
    assert.equal(await read(), "content");
    assert.deepEqual([...new Set(signers)], ["alice"]);

    secret.update(secretFilesOf(server));
    // The file is read again and again while the credentials are on their way to the engine.
    const signal = soon();
    while (signers.at(-1) !== server.accessKeyId) {
      assert.equal(await read(), "content");
      signal.throwIfAborted();
    }
    secret.update({});
    await node.sources.refreshDriverKeys();
    signers.length = 0;
    assert.equal(await read(), "content");
    assert.deepEqual([...new Set(signers)], [server.accessKeyId]);
    await volumes.unpublish(request.target);
  });
});

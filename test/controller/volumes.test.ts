import assert from "node:assert/strict";
import { once } from "node:events";
import { copyFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  CreateBucketCommand,
  GetBucketTaggingCommand,
  PutBucketTaggingCommand,
} from "@aws-sdk/client-s3";
import { create } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { openVolumes } from "../../src/controller/open-volumes.ts";
import {
  CreateVolumeRequestSchema,
  ValidateVolumeCapabilitiesRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../../src/csi/gen/csi_pb.ts";
import { volumeUuidOf } from "../../src/volume/volume-handle.ts";
import { clientOf } from "../../tools/stack/s3-client.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import type { PosixS3Server } from "../../tools/stack/s3-server.ts";
import { TlsFront } from "../engine/tls-front.ts";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { FaultyLine } from "../provisioner/faulty-line.ts";
import { environmentOf, log, secretOf } from "../provisioner/objects.ts";

const signal = AbortSignal.timeout(60_000);
const mode = { mode: Mode.MULTI_NODE_MULTI_WRITER };
const RWX = { accessMode: mode, accessType: { case: "mount" as const, value: {} } };

let s3: PosixS3Server;
before(async () => {
  s3 = await startS3Server();
});
after(() => s3?.[Symbol.asyncDispose]());

function requestFor(name: string, given: MessageInitShape<typeof CreateVolumeRequestSchema> = {}) {
  return create(CreateVolumeRequestSchema, { name, volumeCapabilities: [RWX], ...given });
}

const sized = (name: string, requiredBytes: bigint) =>
  requestFor(name, { capacityRange: { requiredBytes } });

function volumesWith(env: Readonly<Record<string, string>> = {}) {
  const all = { ...environmentOf(s3), ...env };
  return openVolumes({ env: all, credentialsDir: undefined, userAgent: "s3csi/test", log });
}

test("asked again it is the same volume; with another capacity it is a conflict", async () => {
  await using opened = volumesWith();
  const { volumes } = opened;
  const first = await volumes.create(sized("twice", 5n), signal);
  assert.deepEqual(await volumes.create(sized("twice", 5n), signal), first);
  await assert.rejects(volumes.create(sized("twice", 6n), signal), {
    kind: "conflict",
    message: /volume twice exists with 5 bytes, not with at least 6/,
  });
});

test("a tag that was there before stays", async () => {
  const Bucket = `csi-s3-${volumeUuidOf("tagged")}`;
  const client = clientOf(s3);
  await client.send(new CreateBucketCommand({ Bucket }));
  const Tagging = { TagSet: [{ Key: "team", Value: "red" }] };
  await client.send(new PutBucketTaggingCommand({ Bucket, Tagging }));
  await using opened = volumesWith();
  await opened.volumes.create(requestFor("tagged"), signal);
  const { TagSet = [] } = await client.send(new GetBucketTaggingCommand({ Bucket }));
  const keys = TagSet.map(({ Key = "" }) => Key).toSorted();
  const own = ["s3.csi.scality.com/capacity-bytes", "s3.csi.scality.com/volume"];
  assert.deepEqual(keys, [...own, "team"]);
});

test("a server without tags: buckets all the same, the capacity is not compared", async () => {
  await using line = new FaultyLine({
    target: new URL(s3.endpoint),
    judge: ({ path }) => (path.includes("?tagging") ? "501" : undefined),
  });
  await using opened = volumesWith({ AWS_ENDPOINT_URL: await line.listen() });
  const first = await opened.volumes.create(sized("bare", 5n), signal);
  assert.equal((await opened.volumes.create(sized("bare", 6n), signal)).volumeId, first.volumeId);
  const request = { volumeId: first.volumeId, secrets: {} };
  assert.deepEqual(await opened.volumes.delete(request, signal), { kept: undefined });
});

test("a region of its own is asked for, told to the mount and kept in the handle", async () => {
  await using opened = volumesWith();
  const far = requestFor("far", { parameters: { region: "eu-west-1" } });
  await assert.rejects(opened.volumes.create(far, signal), {
    kind: "invalid",
    message: /CreateBucket .*AuthorizationHeaderMalformed.*"eu-west-1" is wrong/,
  });
  const near = requestFor("near", { parameters: { region: "us-east-1" } });
  const { volumeId, volumeContext } = await opened.volumes.create(near, signal);
  assert.equal(volumeContext["region"], "us-east-1");
  assert.equal(volumeId, `${volumeContext["bucketName"]}@us-east-1`);
  assert.deepEqual(await opened.volumes.delete({ volumeId, secrets: {} }, signal), {
    kept: undefined,
  });
});

test("keys of a Secret with a region; whoever has none of the driver's can't use them", async () => {
  const carol = await s3.addAccount("carol");
  await using opened = volumesWith({ AWS_ACCESS_KEY_ID: "", AWS_SECRET_ACCESS_KEY: "" });
  const secrets = { ...secretOf(carol), region: "us-east-1" };
  const made = await opened.volumes.create(requestFor("carols", { secrets }), signal);
  assert.equal(made.volumeContext["authenticationSource"], "secret");
  assert.equal(made.volumeContext["region"], "us-east-1");
  const without = opened.volumes.create(requestFor("nobodys"), signal);
  await assert.rejects(without, { kind: "refused", message: /the driver has no credentials/ });
});

test("a bucket of another account is a conflict; emptied and unknown ones are told", async () => {
  const dave = await s3.addAccount("dave");
  await using opened = volumesWith();
  const { volumes } = opened;
  const { volumeId } = await volumes.create(requestFor("daves"), signal);
  await volumes.delete({ volumeId, secrets: {} }, signal);
  await clientOf(dave).send(new CreateBucketCommand({ Bucket: volumeId }));
  const taken = volumes.create(requestFor("daves"), signal);
  await assert.rejects(taken, { kind: "conflict", message: /belongs to someone else/ });
  const validation = (given: object) =>
    volumes.validate(
      create(ValidateVolumeCapabilitiesRequestSchema, { volumeCapabilities: [RWX], ...given }),
      signal,
    );
  assert.equal(await validation({ volumeId }), undefined);
  const block = { accessMode: mode, accessType: { case: "block" as const, value: {} } };
  assert.match((await validation({ volumeId, volumeCapabilities: [block] })) ?? "", /Block/);
  const elsewhere = { volumeId, volumeContext: { bucketName: "other" } };
  assert.match((await validation(elsewhere)) ?? "", /not in other/);
  await assert.rejects(validation({ volumeId: "nope" }), { kind: "absent" });
});

test("the way to the server goes through the proxy that the environment names", async () => {
  const asked: string[] = [];
  const proxy = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.writeHead(503).end();
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  try {
    const { port } = proxy.address() as AddressInfo;
    const env = { HTTP_PROXY: `http://127.0.0.1:${port}`, AWS_ENDPOINT_URL: "http://s3.invalid:1" };
    await using opened = volumesWith(env);
    await assert.rejects(opened.volumes.create(requestFor("far"), signal), { kind: "remote" });
    assert.match(asked[0] ?? "", /^PUT http:\/\/s3\.invalid:1\/csi-s3-/);
    await using direct = volumesWith({ ...env, NO_PROXY: "s3.invalid" });
    const askedBefore = asked.length;
    await assert.rejects(direct.volumes.create(requestFor("far"), signal), { kind: "remote" });
    assert.equal(asked.length, askedBefore);
  } finally {
    proxy.close();
  }
});

test("a server behind TLS is trusted by the certificates that were given, and only so", async () => {
  const anywhere = { host: "127.0.0.1", port: 0 };
  await using front = await TlsFront.start(s3.endpoint, "localhost", anywhere);
  await using trusting = volumesWith({ AWS_ENDPOINT_URL: front.url, AWS_CA_BUNDLE: front.ca });
  const { volumeId } = await trusting.volumes.create(requestFor("behind-tls"), signal);
  await trusting.volumes.delete({ volumeId, secrets: {} }, signal);
  await using doubting = volumesWith({ AWS_ENDPOINT_URL: front.url });
  const refused = doubting.volumes.create(requestFor("behind-tls"), signal);
  await assert.rejects(refused, { kind: "remote", message: /self-signed certificate/ });
});

test("a running controller trusts the certificates that the bundle has by now", async () => {
  const anywhere = { host: "127.0.0.1", port: 0 };
  await using front = await TlsFront.start(s3.endpoint, "localhost", anywhere);
  await using dir = await temporaryDirectory();
  const bundle = join(dir.path, "ca-bundle.crt");
  await copyFile(front.ca, bundle);
  await using opened = volumesWith({ AWS_ENDPOINT_URL: front.url, AWS_CA_BUNDLE: bundle });
  const createVolume = (name: string) => opened.volumes.create(requestFor(name), signal);
  await createVolume("first-authority");
  const second = await front.renew();
  const message = /self-signed certificate/;
  await assert.rejects(createVolume("second-authority"), { kind: "remote", message });
  await copyFile(second, bundle);
  await createVolume("second-authority");
});

test("certificates that can't be read are told at the start", () => {
  assert.throws(() => volumesWith({ AWS_CA_BUNDLE: "/nowhere" }), {
    kind: "invalid",
    message: /AWS_CA_BUNDLE \/nowhere: can't be read/,
  });
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { planMount } from "../volume/mount-options.ts";
import { mountSpecFor } from "./mount-spec.ts";
import type { PublishRequest } from "./publish-request.ts";

const ENV = { AWS_REGION: "eu-driver", AWS_ACCESS_KEY_ID: "k", AWS_SECRET_ACCESS_KEY: "s" };

function requestFor(region: string | undefined): PublishRequest {
  return {
    volumeId: "vol-1",
    target: { path: "/t", podUid: "uid-1", pvName: "pv-1" },
    workloadUid: "uid-1",
    mountOptions: [],
    readOnly: false,
    isReadOnlyVolume: false,
    isSingle: false,
    context: { bucketName: "bucket-1", authenticationSource: "driver", prefix: "", region },
    secrets: {},
  };
}

// prettier-ignore
const cases: [engine: "s3csi" | "mount-s3", ofVolume: string | undefined, args: string[], env: string | undefined][] = [
  ["s3csi",    undefined, [],                     "eu-driver"],
  ["s3csi",    "eu-vol",  ["--region=eu-vol"],    "eu-driver"],
  ["mount-s3", undefined, ["--region=eu-driver"], undefined],
  ["mount-s3", "eu-vol",  ["--region=eu-vol"],    undefined],
];
for (const [engine, ofVolume, args, inEnvironment] of cases) {
  test(`the region of ${engine} for a volume with ${ofVolume ?? "none"}`, () => {
    const settings = { env: ENV, userAgent: "s3csi" };
    const spec = mountSpecFor(requestFor(ofVolume), planMount([], ""), settings, engine);
    assert.deepEqual(
      spec.args.filter((arg) => arg.startsWith("--region")),
      args,
    );
    assert.equal(spec.env["AWS_REGION"], inEnvironment);
  });
}

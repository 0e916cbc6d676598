import assert from "node:assert/strict";
import { test } from "node:test";
import { containersIn, render } from "./render.ts";

const ENGINE = "mountpointPod.engine";
const IMAGE = "mountpointPod.mountS3.image";

async function engineFlags(values: object): Promise<string[]> {
  const [controller] = containersIn(await render(values));
  return (controller?.args ?? []).filter((flag) => /^--(mountpoint-engine|mount-s3)/.test(flag));
}

test("the engine is ours, and the controller hears of no other", async () => {
  assert.deepEqual(await engineFlags({}), []);
  assert.deepEqual(await engineFlags({ [IMAGE]: { repository: "there/s3csi-mount-s3" } }), []);
});

test("mount-s3: its image and its place in it", async () => {
  const repository = "registry.example.com/s3csi-mount-s3";
  const values = { [ENGINE]: "mount-s3", [IMAGE]: { repository, tag: "7" } };
  const path = "--mount-s3-path=/opt/aws/mountpoint-s3/bin/mount-s3";
  const image = `--mount-s3-image=${repository}:7`;
  assert.deepEqual(await engineFlags(values), ["--mountpoint-engine=mount-s3", image, path]);
});

// prettier-ignore
const wrong: [name: string, values: object, says: RegExp][] = [
  ["another engine",      { [ENGINE]: "s3fs" },                                           /must be one of 's3csi', 'mount-s3'/],
  ["mount-s3, no image",  { [ENGINE]: "mount-s3" },                                       /mountpointPod\.mountS3\.image\.repository is empty: .* name an image/],
  ["a path that is none", { [ENGINE]: "mount-s3", "mountpointPod.mountS3.path": "mount-s3" }, /mountS3\/path|mountS3\.path/],
];
for (const [name, values, says] of wrong) {
  test(`${name} is refused`, async () => {
    await assert.rejects(render(values), says);
  });
}

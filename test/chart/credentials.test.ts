import assert from "node:assert/strict";
import { test } from "node:test";
import type { V1Deployment } from "@kubernetes/client-node";
import { render } from "./render.ts";

const SECRET = {
  name: "keys",
  accessKeyId: "id",
  secretAccessKey: "secret",
  sessionToken: "token",
};
const VOLUME = {
  name: "credentials",
  secret: {
    secretName: "keys",
    optional: true,
    items: [
      { key: "id", path: "access_key_id" },
      { key: "secret", path: "secret_access_key" },
      { key: "token", path: "session_token" },
    ],
  },
};

for (const kind of ["Deployment", "DaemonSet"]) {
  test(`the ${kind} mounts the driver's Secret, and has no variables from it`, async () => {
    const objects = await render({ s3CredentialSecret: SECRET });
    const found = objects.find((one) => one.kind === kind) as unknown as V1Deployment;
    const { volumes = [], containers = [] } = found.spec?.template.spec ?? {};
    const volume = volumes.find(({ name }) => name === VOLUME.name);
    assert.deepEqual(structuredClone(volume), VOLUME);
    const [container] = containers;
    const path = "/etc/s3csi/credentials";
    assert(container?.args?.includes(`--credentials-dir=${path}`) === true);
    const mount = container.volumeMounts?.find(({ name }) => name === VOLUME.name);
    assert.deepEqual(structuredClone(mount), {
      name: VOLUME.name,
      mountPath: path,
      readOnly: true,
    });
    const secrets = container.env?.filter(({ valueFrom }) => valueFrom?.secretKeyRef);
    assert.deepEqual(secrets, []);
  });
}

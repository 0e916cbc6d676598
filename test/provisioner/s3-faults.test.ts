import assert from "node:assert/strict";
import { test } from "node:test";
import { AwsServer } from "../../src/controller/aws-buckets.ts";
import { BucketVolumes } from "../../src/controller/bucket-volumes.ts";
import { driverKeys } from "../../src/controller/keys.ts";
import { loadKubeAccess } from "../../src/kube/kube-access.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { startProvisioner } from "../../src/provisioner/run.ts";
import { startApiServer } from "../../tools/stack/api-server.ts";
import type { S3Access, S3Server } from "../../tools/stack/s3-server.ts";
import { S3_SERVERS } from "../../tools/stack/s3-servers.ts";
import { FAULTS, FaultyLine } from "./faulty-line.ts";
import type { Fault, Passing } from "./faulty-line.ts";
import { Users, environmentOf, log } from "./objects.ts";

/** Every call that the driver makes for a volume of its own bucket. */
const CALLS: Readonly<Record<string, (request: Passing) => boolean>> = {
  create: ({ method, path }) => method === "PUT" && !path.includes("?tagging"),
  gettags: ({ method, path }) => method === "GET" && path.includes("?tagging"),
  settags: ({ method, path }) => method === "PUT" && path.includes("?tagging"),
  delete: ({ method }) => method === "DELETE",
};
/** And those that it makes for one that is emptied. */
const EMPTYING_CALLS: typeof CALLS = {
  uploads: ({ method, path }) => method === "GET" && /[?&]uploads(=|&|$)/.test(path),
  versions: ({ method, path }) => method === "GET" && /[?&]versions(=|&|$)/.test(path),
  objects: ({ method, path }) => method === "POST" && path.includes("?delete"),
};
const ALL_CALLS = { ...CALLS, ...EMPTYING_CALLS };
/** More than the SDK tries by itself, so that the provisioner has to come back too. */
const TIMES = 4;

const CASES = Object.keys(ALL_CALLS).flatMap((call) =>
  FAULTS.map((fault) => ({ call, fault, prefix: `${call}-${fault}-` })),
);

for (const [server, startServer] of Object.entries(S3_SERVERS)) {
  test(
    `${server} fails at every call in every way: all is bound, all is deleted, nothing is left`,
    { timeout: 180_000 },
    () => everyFault(startServer),
  );
}

async function everyFault(startServer: () => Promise<S3Server>): Promise<void> {
  await using plane = await startApiServer();
  await using s3 = await startServer();
  const counts = new Map<string, number>();
  await using line = new FaultyLine({
    target: new URL(s3.endpoint),
    judge: (request) => faultFor(request, counts),
  });
  const stop = new AbortController();
  await using owned = new AsyncDisposableStack();
  const access = await loadKubeAccess(plane.kubeconfig);
  const client = owned.use(new KubeClient(access));
  const driver = owned.adopt(driverOf({ ...s3, endpoint: await line.listen() }), (one) =>
    one.server[Symbol.dispose](),
  );
  const users = new Users(client, s3, stop.signal);
  await users.start();
  const backOff = { firstMs: 50, maxMs: 500 };
  const options = { client, driver: driver.volumes, instance: "c", log, backOff, installedMs: 0 };
  const provisioning = startProvisioner(options, stop.signal);
  owned.defer(async () => {
    stop.abort();
    await provisioning;
  });

  await Promise.all(CASES.map(({ call, prefix }) => run(users, prefix, call in EMPTYING_CALLS)));
  assert.deepEqual(await users.buckets(), [], "no orphan");
  for (const { prefix, fault } of CASES) {
    const expected = fault === "lost" ? 1 : TIMES; // what was done need not be asked for again
    assert((counts.get(prefix) ?? 0) >= expected, `${prefix} has met its fault`);
  }
}

/** A claim's whole life, in a class whose bucket names tell the line how to fail. */
async function run(users: Users, prefix: string, isEmptied: boolean): Promise<void> {
  const name = prefix.replace(/-$/, "");
  const onDelete = isEmptied ? "delete" : "keepIfNotEmpty";
  await users.storageClass(name, { parameters: { bucketNamePrefix: prefix, onDelete } });
  await users.claim(name, name);
  const volume = await users.bound(name);
  const bucket = volume.spec?.csi?.volumeHandle ?? "";
  const mine = (await users.buckets()).filter((one) => one.startsWith(prefix));
  assert.deepEqual(mine, [bucket], "one bucket, never a second one");
  if (isEmptied) await users.put(bucket, "k");
  await users.deleteClaim(name);
  await users.volumeGone(volume.metadata?.name ?? "");
}

function faultFor(request: Passing, counts: Map<string, number>): Fault | undefined {
  const found = CASES.find(({ prefix }) => request.path.startsWith(`/${prefix}`));
  if (found === undefined || ALL_CALLS[found.call]?.(request) !== true) return undefined;
  const count = (counts.get(found.prefix) ?? 0) + 1;
  counts.set(found.prefix, count);
  return count <= TIMES ? found.fault : undefined;
}

/** As in the product, with less patience for a silent server. */
function driverOf(s3: S3Access) {
  const env = environmentOf(s3);
  const server = new AwsServer({
    endpoint: s3.endpoint,
    ca: undefined,
    proxyEnv: {},
    userAgent: "test",
    silenceLimitMs: 500,
  });
  const volumes = new BucketVolumes({
    open: async (keys, region) => server.open(keys, region),
    driverKeys: () => driverKeys(undefined, env),
    region: s3.region,
    log,
  });
  return { server, volumes };
}

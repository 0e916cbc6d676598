import { join } from "node:path";
import { ListBucketsCommand } from "@aws-sdk/client-s3";
import { loadKubeAccess } from "../../../src/kube/kube-access.ts";
import { KubeClient } from "../../../src/kube/kube-client.ts";
import { startApiServer } from "../../stack/api-server.ts";
import { claimSlot } from "../../stack/instance.ts";
import { clientOf } from "../../stack/s3-client.ts";
import { startS3Server } from "../../stack/s3-server.ts";
import type { S3Access } from "../../stack/s3-server.ts";
import { Service } from "../../stack/service.ts";
import { median } from "../median.ts";
import type { Figures, Part } from "../part.ts";
import { Claims } from "../provision/claims.ts";
import { aimTable, pagesOf } from "../provision/page.ts";

const MAIN = join(import.meta.dirname, "../../../src/main.ts");
const MANY = 200;
const SOME = 50;
const SINGLES = 21;
const STARTS_WITHIN_MS = 30_000;

async function run(progress: (text: string) => void): Promise<Figures> {
  await using plane = await startApiServer();
  await using s3 = await startS3Server();
  using client = new KubeClient(await loadKubeAccess(plane.kubeconfig));
  const stop = new AbortController();
  using _stop = { [Symbol.dispose]: () => stop.abort() };
  const claims = new Claims(client, stop.signal);
  await claims.start();
  await using _controller = await startController(plane.kubeconfig, s3);
  const buckets = async () => {
    const { Buckets = [] } = await clientOf(s3).send(new ListBucketsCommand({}));
    return Buckets.length;
  };

  progress("one at a time");
  const singles = Array.from({ length: SINGLES }, (_, index) => `one-${index}`);
  const singleMs: number[] = [];
  for (const name of singles) singleMs.push(await claims.bind([name]));
  await claims.remove(singles);
  progress(`${SOME} at once`);
  const some = Array.from({ length: SOME }, (_, index) => `some-${index}`);
  const bind50Ms = await claims.bind(some);
  const delete50Ms = await claims.remove(some);
  progress(`${MANY} at once`);
  const many = Array.from({ length: MANY }, (_, index) => `many-${index}`);
  const boundMs = await claims.bind(many);
  const { bound } = claims;
  const extra = (await buckets()) - bound;
  const deletedMs = await claims.remove(many);
  return {
    pvcs: MANY,
    bound,
    buckets_extra: extra,
    buckets_left: await buckets(),
    bind_one_ms_p50: median(singleMs),
    bind_50_s: bind50Ms / 1_000,
    delete_50_s: delete50Ms / 1_000,
    bound_s: boundMs / 1_000,
    deleted_s: deletedMs / 1_000,
  };
}

/** As a process of its own, like in the cluster. */
async function startController(kubeconfig: string, s3: S3Access): Promise<AsyncDisposable> {
  await using owned = new AsyncDisposableStack();
  const instance = owned.use(await claimSlot());
  const service = owned.use(
    new Service({
      instance,
      name: "controller",
      program: process.execPath,
      args: [MAIN, "controller", `--kubeconfig=${kubeconfig}`, "--reconcile=false"],
      env: {
        AWS_ENDPOINT_URL: s3.endpoint,
        AWS_REGION: s3.region,
        AWS_ACCESS_KEY_ID: s3.accessKeyId,
        AWS_SECRET_ACCESS_KEY: s3.secretAccessKey,
        POD_NAME: "controller-0",
      },
    }),
  );
  await service.line(/provisioner caches synced/, STARTS_WITHIN_MS);
  return owned.move();
}

export const part: Part = {
  name: "provision",
  description: "claims to bound volumes and back, on a real control plane and S3 server",
  run,
  table: aimTable,
  pages: pagesOf,
};

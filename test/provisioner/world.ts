import { KubeClient } from "../../src/kube/kube-client.ts";
import { startProvisioner } from "../../src/provisioner/run.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import type { PosixS3Server } from "../../tools/stack/s3-server.ts";
import { CuttableLine, installChart } from "../reconciler/control-plane.ts";
import type { InstalledChart } from "../reconciler/control-plane.ts";
import { FaultyLine } from "./faulty-line.ts";
import type { Judge } from "./faulty-line.ts";
import { Users, log, volumesOf } from "./objects.ts";

/** A control plane with the chart, an S3 server, and a provisioner with the controller's rights. */
export interface ProvisioningWorld extends AsyncDisposable {
  readonly chart: InstalledChart;
  readonly s3: PosixS3Server;
  readonly users: Users;
  /** Between the provisioner and the API server. */
  readonly line: CuttableLine;
  readonly signal: AbortSignal;
}

/** `judge`: how S3 fails. `installedMs`: older classes were made for another driver. */
export async function startWorld(
  provisioners = 1,
  judge: Judge = () => undefined,
  installedMs = 0,
): Promise<ProvisioningWorld> {
  await using owned = new AsyncDisposableStack();
  const stop = new AbortController();
  const { signal } = stop;
  const chart = owned.use(await installChart());
  const s3 = owned.use(await startS3Server());
  const users = new Users(chart.admin, s3, signal);
  await users.start();
  const access = chart.accessOf("s3-csi-driver-controller-sa");
  const line = owned.use(new CuttableLine(access.server));
  const lineAccess = await line.access(access);
  const faulty = owned.use(new FaultyLine({ target: new URL(s3.endpoint), judge }));
  const endpoint = await faulty.listen();
  const backOff = { firstMs: 50, maxMs: 500 };
  const running = Array.from({ length: provisioners }, (_, index) => {
    const client = owned.use(new KubeClient(lineAccess));
    const { volumes: driver } = owned.use(volumesOf({ ...s3, endpoint }, client));
    const instance = `controller-${index}`;
    return startProvisioner({ client, driver, installedMs, instance, log, backOff }, signal);
  });
  owned.defer(async () => {
    stop.abort();
    await Promise.all(running);
  });
  await users.storageClass("plain");
  const all = owned.move();
  return { chart, s3, users, line, signal, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

import { createLog } from "../../../src/base/pino-log.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { PVCS, PVS, STORAGE_CLASSES } from "../../../src/kube/resource.ts";
import type { PersistentVolume, PersistentVolumeClaim } from "../../../src/kube/resource.ts";
import { WatchedList } from "../../../src/kube/watched-list.ts";
import { DRIVER_NAME } from "../../../src/volume/names.ts";

const CLASS = "s3";
const NAMESPACE = "default";
const log = createLog("error", { role: "bench" });

/** Makes claims and deletes them, and sees by the watches when they are through. */
export class Claims {
  readonly #client: KubeClient;
  readonly #signal: AbortSignal;
  readonly #claims;
  readonly #volumes;

  constructor(client: KubeClient, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
    this.#claims = new WatchedList<PersistentVolumeClaim, PersistentVolumeClaim>({
      client,
      log,
      resource: PVCS,
      project: (claim) => claim,
    });
    this.#volumes = new WatchedList<PersistentVolume, PersistentVolume>({
      client,
      log,
      resource: PVS,
      project: (volume) => volume,
    });
  }

  async start(): Promise<void> {
    const lists = [this.#claims, this.#volumes];
    for (const list of lists) void list.start(this.#signal); // rejects only for a bug
    await Promise.all(lists.map((list) => list.synced));
    const storageClass = { metadata: { name: CLASS }, provisioner: DRIVER_NAME };
    await this.#client.create(STORAGE_CLASSES, storageClass, this.#signal);
  }

  get bound(): number {
    return this.#claims
      .values()
      .filter((claim) => claim.status?.phase === "Bound")
      .toArray().length;
  }

  /** Milliseconds from the first request to the last claim that is Bound. */
  async bind(names: readonly string[]): Promise<number> {
    const startedMs = performance.now();
    await Promise.all(names.map((name) => this.#create(name)));
    await this.#claims.until((list) => {
      const isBound = (name: string) => list.get(`${NAMESPACE}/${name}`)?.status?.phase === "Bound";
      return names.every(isBound) ? true : undefined;
    }, this.#signal);
    return performance.now() - startedMs;
  }

  /** Milliseconds from the first request until no PV is left. */
  async remove(names: readonly string[]): Promise<number> {
    const startedMs = performance.now();
    await Promise.all(
      names.map((name) => this.#client.delete(PVCS, placeOf(name), {}, this.#signal)),
    );
    await this.#volumes.until((list) => {
      const [first] = list.values();
      return first === undefined ? true : undefined;
    }, this.#signal);
    return performance.now() - startedMs;
  }

  async #create(name: string): Promise<void> {
    const claim: PersistentVolumeClaim = {
      metadata: { namespace: NAMESPACE, name },
      spec: {
        accessModes: ["ReadWriteMany"],
        storageClassName: CLASS,
        resources: { requests: { storage: "1Gi" } },
      },
    };
    await this.#client.create(PVCS, claim, this.#signal);
  }
}

function placeOf(name: string) {
  return { namespace: NAMESPACE, name };
}

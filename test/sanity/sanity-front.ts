import { rmSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import type { Client, ServiceImpl } from "@connectrpc/connect";
import {
  Identity,
  Node,
  PluginCapability_Service_Type,
  VolumeCapability_AccessMode_Mode as Mode,
} from "../../src/csi/gen/csi_pb.ts";
import type { NodePublishVolumeRequest } from "../../src/csi/gen/csi_pb.ts";
import { serve, socketPathOf } from "../../src/csi/serve.ts";
import { grpcClient } from "../node/grpc-client.ts";
import { silentLog } from "../node/test-node.ts";
import { Controller } from "./csi-controller.ts";
import type { PlayedNode, Wanted } from "./played-node.ts";

interface NodeRequest {
  readonly volumeId?: string;
  targetPath?: string;
  volumePath?: string;
}

/**
 * What stands between csi-sanity and the node service. csi-sanity calls a driver's socket with any
 * directory for a target, and expects CreateVolume to be all that a volume takes. The node service
 * serves the kubelet: targets are volumes of pods, pods have claims, and claims have PVs. So each
 * CreateVolume makes those objects, and each path of csi-sanity's stands for a pod's volume, to
 * which it is a symbolic link. Everything else is handed on as it is, answers and codes too.
 */
export class SanityFront {
  readonly #played: PlayedNode;
  readonly #mountDir: string;
  /** By volume and the last part of csi-sanity's path: a pod each. */
  readonly #wanted = new Map<string, Wanted>();
  #volumes = 0;

  constructor(played: PlayedNode, mountDir: string) {
    this.#played = played;
    this.#mountDir = mountDir;
  }

  async serve(endpoint: string): Promise<AsyncDisposable> {
    const path = socketPathOf(this.#played.endpoint);
    const identity = grpcClient(Identity, path);
    const node = grpcClient(Node, path);
    const routes: Parameters<typeof serve>[1] = (router) =>
      router
        .service(Controller, this.#controller())
        .service(Node, this.#node(node))
        .service(Identity, {
          getPluginInfo: (request) => identity.getPluginInfo(request),
          getPluginCapabilities: () => ({ capabilities: [CONTROLLER_SERVICE] }),
          probe: (request) => identity.probe(request),
        });
    return serve(endpoint, routes, silentLog);
  }

  #controller(): ServiceImpl<typeof Controller> {
    const calls = {
      controllerGetCapabilities: () => ({}),
      createVolume: async () => {
        const name = `pv-${++this.#volumes}`;
        await this.#played.volume(name);
        await this.#want(handleOf(name), "target");
        return { volume: { volumeId: handleOf(name) } };
      },
      deleteVolume: async (request: unknown) => {
        const { volumeId } = request as { volumeId: string };
        for (const key of this.#wanted.keys()) {
          const [ofVolume, last = ""] = key.split("/");
          if (ofVolume !== volumeId) continue;
          this.#wanted.delete(key);
          rmSync(join(this.#mountDir, last), { force: true });
          await this.#played.removeWorkload(workloadNameOf(volumeId, last));
        }
        return {};
      },
    };
    return calls as object as ServiceImpl<typeof Controller>; // described only at run time
  }

  /** Whatever the Node service offers, with paths translated where they are csi-sanity's. */
  #node(node: Client<typeof Node>): ServiceImpl<typeof Node> {
    const calls = Node.methods.map(({ localName }) => {
      const call = node[localName as keyof typeof node] as (request: object) => Promise<object>;
      return [localName, async (request: NodeRequest) => call(await this.#translate(request))];
    });
    return Object.fromEntries(calls) as ServiceImpl<typeof Node>;
  }

  async #translate(request: NodeRequest): Promise<NodeRequest> {
    const path = request.targetPath ?? request.volumePath ?? "";
    if (!path.startsWith(`${this.#mountDir}/`)) return request;
    const { target, volumeContext } = await this.#want(request.volumeId ?? "", basename(path));
    if (request.targetPath !== undefined) request.targetPath = target;
    if (request.volumePath !== undefined) request.volumePath = target;
    if (isPublish(request)) {
      request.volumeContext = { ...volumeContext, ...request.volumeContext };
      shareable(request);
    }
    return request;
  }

  /** A volume that CreateVolume has not made is in no pod: its path is one that can't be. */
  async #want(volumeId: string, last: string): Promise<Wanted> {
    const key = `${volumeId}/${last}`;
    const known = this.#wanted.get(key);
    if (known !== undefined) return known;
    if (!volumeId.endsWith(HANDLE_ENDS_WITH)) {
      const pods = join(this.#played.kubeletPath, "pods/none/volumes/kubernetes.io~csi");
      return { target: join(pods, "none/mount"), volumeContext: {} };
    }
    const volume = volumeId.slice(0, -HANDLE_ENDS_WITH.length);
    const wanted = await this.#played.workload(workloadNameOf(volumeId, last), volume);
    this.#wanted.set(key, wanted);
    symlinkSync(wanted.target, join(this.#mountDir, last));
    return wanted;
  }
}

const HANDLE_ENDS_WITH = "-handle";
const CONTROLLER_SERVICE = {
  type: {
    case: "service",
    value: { type: PluginCapability_Service_Type.CONTROLLER_SERVICE },
  },
} as const;

const handleOf = (volume: string) => `${volume}${HANDLE_ENDS_WITH}`;
const workloadNameOf = (volumeId: string, last: string) =>
  `${volumeId}-${last}`.replaceAll("_", "-");

function isPublish(request: object): request is NodePublishVolumeRequest {
  return "volumeContext" in request && "targetPath" in request;
}

/** csi-sanity asks for a single writer everywhere; a bucket is there for many. */
function shareable({ volumeCapability }: NodePublishVolumeRequest): void {
  const mode = volumeCapability?.accessMode;
  if (mode?.mode === Mode.SINGLE_NODE_WRITER) mode.mode = Mode.MULTI_NODE_MULTI_WRITER;
}

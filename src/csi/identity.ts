import type { ServiceImpl } from "@connectrpc/connect";
import { PluginCapability_Service_Type } from "./gen/csi_pb.ts";
import type { Identity } from "./gen/csi_pb.ts";

export interface IdentityOptions {
  readonly driverName: string;
  readonly version: string;
  /** Whether the controller service is offered on the same socket. */
  readonly controller: boolean;
}

/** CSI Identity: who we are, what we offer; once this answers, we can work. */
export function identityService(options: IdentityOptions): ServiceImpl<typeof Identity> {
  const offered = options.controller ? [PluginCapability_Service_Type.CONTROLLER_SERVICE] : [];
  return {
    getPluginInfo: () => ({ name: options.driverName, vendorVersion: options.version }),
    getPluginCapabilities: () => ({
      capabilities: offered.map((type) => ({ type: { case: "service", value: { type } } })),
    }),
    probe: () => ({ ready: true }),
  };
}

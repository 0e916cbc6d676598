import type { ServiceImpl } from "@connectrpc/connect";
import { PluginCapability_Service_Type } from "./gen/csi_pb.ts";
import type { Identity } from "./gen/csi_pb.ts";

export interface IdentityOptions {
  readonly driverName: string;
  readonly version: string;
  /** Whether the controller service is offered on the same socket. */
  readonly controller: boolean;
  /** Whether volumes may be bound to places. */
  readonly topology?: boolean;
}

/** CSI Identity: who we are, what we offer; once this answers, we can work. */
export function identityService(options: IdentityOptions): ServiceImpl<typeof Identity> {
  const { CONTROLLER_SERVICE, VOLUME_ACCESSIBILITY_CONSTRAINTS } = PluginCapability_Service_Type;
  const offered = [
    ...(options.controller ? [CONTROLLER_SERVICE] : []),
    ...(options.topology === true ? [VOLUME_ACCESSIBILITY_CONSTRAINTS] : []),
  ];
  return {
    getPluginInfo: () => ({ name: options.driverName, vendorVersion: options.version }),
    getPluginCapabilities: () => ({
      capabilities: offered.map((type) => ({ type: { case: "service", value: { type } } })),
    }),
    probe: () => ({ ready: true }),
  };
}

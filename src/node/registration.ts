import type { ServiceImpl } from "@connectrpc/connect";
import type { Log } from "../base/log.ts";
import type { Registration } from "../csi/gen/registration_pb.ts";

export interface RegistrationOptions {
  readonly driverName: string;
  /** The CSI socket as the kubelet sees it. */
  readonly socketPath: string;
  /** The kubelet's word: why it refuses the driver, or nothing when it has taken it. */
  readonly told: (refusal: string | undefined) => void;
  readonly log: Log;
}

/**
 * What the registrar sidecar does elsewhere: the kubelet watches a directory, finds our socket
 * there and asks who we are.
 */
export function registrationService(
  options: RegistrationOptions,
): ServiceImpl<typeof Registration> {
  const { driverName, socketPath, told, log } = options;
  return {
    getInfo: () => ({
      type: "CSIPlugin",
      name: driverName,
      endpoint: socketPath,
      supportedVersions: ["1.0.0"],
    }),
    notifyRegistrationStatus({ pluginRegistered, error }) {
      told(pluginRegistered ? undefined : error);
      if (pluginRegistered) log.info("registered with the kubelet");
      else log.error({ reason: error }, "the kubelet refused the registration");
      return {};
    },
  };
}

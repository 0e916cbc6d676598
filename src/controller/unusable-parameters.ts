import type { CreateVolumeRequest } from "../csi/gen/csi_pb.ts";
import { parseCreateRequest } from "./create-request.ts";
import { ParameterFailure } from "./parameter-failure.ts";

/**
 * The parameters without which CreateVolume takes the request, and why it does not take them. A
 * class made for the reference driver goes on working without them: that driver ignored all of its
 * parameters. A parameter that may say whose keys are used is never among them: other keys would be
 * used.
 */
export function unusableParameters(request: CreateVolumeRequest): ReadonlyMap<string, string> {
  const parameters = { ...request.parameters };
  const unusable = new Map<string, string>();
  for (;;) {
    try {
      parseCreateRequest({ ...request, parameters });
      return unusable;
    } catch (error) {
      const isToIgnore = error instanceof ParameterFailure && !isAboutKeys(error.parameter);
      if (!isToIgnore || !(error.parameter in parameters)) throw error;
      unusable.set(error.parameter, error.message);
      delete parameters[error.parameter];
    }
  }
}

function isAboutKeys(name: string): boolean {
  return /secret|auth|credential/i.test(name);
}

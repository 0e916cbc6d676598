import * as z from "zod";
import type { Environment, Flags } from "../base/flags.ts";
import { VERSION } from "../base/version.ts";
import { Identity } from "../csi/gen/csi_pb.ts";
import { identityService } from "../csi/identity.ts";
import { serve } from "../csi/serve.ts";
import { LOG_FLAGS, runRole } from "./role.ts";
import type { Role } from "./role.ts";

const DRIVER_NAME = "s3.csi.scality.com";

const FLAGS = {
  endpoint: {
    schema: z.string().startsWith("unix:///"),
    placeholder: "unix:///PATH",
    help: "socket for the kubelet, below <kubelet>/plugins",
  },
  ...LOG_FLAGS,
} as const satisfies Flags;

const role: Role<typeof FLAGS> = {
  name: "node",
  summary: "serve the kubelet: publish and unpublish volumes",
  flags: FLAGS,
  start: (config, log) => {
    const options = { driverName: DRIVER_NAME, version: VERSION, controller: false };
    return serve(
      config.endpoint,
      (router) => router.service(Identity, identityService(options)),
      log,
    );
  },
};

export const run = (argv: readonly string[], env: Environment) => runRole(role, argv, env);

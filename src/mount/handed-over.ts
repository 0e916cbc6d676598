import type { Log } from "../base/log.ts";
import { Secret } from "../base/secret.ts";
import { fixedCredentials } from "../s3/credentials.ts";
import type { CredentialSource } from "../s3/credentials.ts";
import { openBucket } from "./bucket-store.ts";
import { listen, tell } from "./control-channel.ts";
import type { Start } from "./control-messages.ts";
import type { MountOptions } from "./mount-options.ts";
import { ServedMount } from "./served-mount.ts";

/** Serves a connection that was made and mounted by others, as the mounter's messages say. */
export async function runHandedOver(
  options: MountOptions,
  fuseFd: number,
  log: Log,
): Promise<number> {
  const control = listen();
  const { slotsFd, credentials } = await control.started;
  const store = await openBucket(options, credentialsOf(credentials));
  const mountedByUs = true; // by the node service
  const mount = new ServedMount({ fuseFd, slotsFd, store, options, mountedByUs, log });
  if ((await Promise.race([mount.ready, mount.ended, control.finishing])) === undefined) {
    await tell({ did: "ready" });
    log.info({ bucket: options.bucket }, "serving");
  }
  await Promise.race([mount.ended, control.finishing]);
  const complete = await mount.finish();
  await tell({ did: "finished" });
  return complete ? 0 : 1;
}

function credentialsOf(given: Start["credentials"]): CredentialSource | undefined {
  if (given === null) return undefined;
  return fixedCredentials({
    accessKeyId: given.accessKeyId,
    secretAccessKey: new Secret(given.secretAccessKey),
    sessionToken: given.sessionToken === undefined ? undefined : new Secret(given.sessionToken),
  });
}

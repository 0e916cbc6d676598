import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import { Secret } from "../base/secret.ts";
import { LiveCredentials } from "../s3/credentials.ts";
import type { Credentials, CredentialSource } from "../s3/credentials.ts";
import { openBucket } from "./bucket-store.ts";
import { listen, tell } from "./control-channel.ts";
import type { Start } from "../supervisor/control-messages.ts";
import { openDurableMemory, openSlots } from "./durable-memory.ts";
import { findCredentials } from "./find-credentials.ts";
import type { MountOptions } from "./mount-options.ts";
import type { Given } from "./run.ts";
import { ServedMount } from "./served-mount.ts";

/** Serves a connection that is held by others too, as its supervisor's messages say. */
export async function runHandedOver(options: MountOptions, { env, log }: Given): Promise<number> {
  const control = listen();
  // A terminal sends them to all of its processes: the supervisor decides what they mean.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
  const start = await control.started;
  const { fuseFd, mountedByUs, resume } = start;
  if (resume && !options.keepsJournal) {
    const reason = "--no-journal: nothing is known of what the engine before this one has served";
    throw new Failure("invalid", reason);
  }
  const idle = resume ? [] : options.idle; // once is enough
  for (const option of idle) log.warn({ option }, "option without effect");
  for (const { option, given, used } of resume ? [] : options.memory.reduced) {
    log.warn(
      { option, given, maximum: used },
      "option reduced to fit the container's memory limit",
    );
  }
  const credentials = credentialsOf(start.credentials, options, env);
  control.onRekey((given) => {
    if (!(credentials instanceof LiveCredentials) || given === null || given === "find") return;
    credentials.change(keysOf(given));
    log.info("signing with other keys from now on");
  });
  const opening = openBucket(options, credentials, { isKnownToWork: resume, log });
  opening.catch(() => undefined); // it is waited for below
  const memory = openDurableMemory(start, options); // while the bucket is asked
  const slots = openSlots(start.slotsFd, options);
  const bucket = await opening;
  if (start.waits) {
    await tell({ did: "opened" });
    await Promise.race([control.mounted, control.finishing]);
  }
  const mount = new ServedMount({ fuseFd, slots, memory, bucket, options, mountedByUs, log });
  if ((await Promise.race([mount.ready, mount.ended, control.finishing])) === undefined) {
    await tell({ did: "ready" });
    log.info({ bucket: options.bucket, resume }, "serving");
  }
  const why = await Promise.race([mount.ended, control.finishing]);
  // Like a crash: whoever holds the descriptors goes on with journal and spool as they are.
  if (why === "orphaned") return mount.leave();
  const complete = await mount.finish();
  await tell({ did: "finished" });
  return complete ? 0 : 1;
}

function credentialsOf(
  given: Start["credentials"],
  options: MountOptions,
  env: Environment,
): CredentialSource | undefined {
  if (given === null) return undefined;
  if (given === "find") return findCredentials(options, env);
  return new LiveCredentials(keysOf(given));
}

function keysOf(given: Exclude<Start["credentials"], null | "find">): Credentials {
  return {
    accessKeyId: given.accessKeyId,
    secretAccessKey: new Secret(given.secretAccessKey),
    sessionToken: given.sessionToken === undefined ? undefined : new Secret(given.sessionToken),
  };
}

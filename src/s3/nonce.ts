import { randomBytes } from "../sys/openssl.ts";

/** Put into an object's metadata by whoever makes it: by this it knows its own again. */
export function newNonce(): string {
  return randomBytes(16).toString("hex");
}

import type { Secret } from "../base/secret.ts";

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: Secret;
  readonly sessionToken: Secret | undefined;
}

import type { Secret } from "../base/secret.ts";

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: Secret;
  readonly sessionToken: Secret | undefined;
}

/** Where keys come from: they may change while the mount lives. */
export interface CredentialSource {
  /** The same object for as long as the keys are the same. */
  current(): Credentials;
  /** S3 has refused these keys. True when there are others now: then try again. */
  renew(refused: Credentials): boolean;
}

export function fixedCredentials(credentials: Credentials): CredentialSource {
  return { current: () => credentials, renew: () => false };
}

/** Keys that somebody else brings, and changes when he likes. */
export class LiveCredentials implements CredentialSource {
  #credentials: Credentials;

  constructor(credentials: Credentials) {
    this.#credentials = credentials;
  }

  current(): Credentials {
    return this.#credentials;
  }

  /** Others may have come between the request and its answer. */
  renew(refused: Credentials): boolean {
    return this.#credentials !== refused;
  }

  change(credentials: Credentials): void {
    this.#credentials = credentials;
  }
}

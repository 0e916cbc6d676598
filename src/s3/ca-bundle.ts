import { readFileSync, statSync } from "node:fs";
import type { SecureContext } from "node:tls";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { loadTls } from "./load-tls.ts";
import { AwayFailure } from "./retry.ts";

const CERTIFICATE = /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----/;

export interface CaBundleOptions {
  /** PEM. */
  readonly path: string;
  /** The option or environment variable that names the file, for messages. */
  readonly setting: string;
  /** True: no other authorities are trusted. False: Node's own are trusted, too. */
  readonly isExclusive: boolean;
  /** A mount has used the file before: while it can't be read now, connections wait for it. */
  readonly isKnownToWork?: boolean;
  readonly log?: Log | undefined;
}

/**
 * Certificate authorities from a file that may change: the kubelet updates a ConfigMap's files in
 * a running pod. New connections are checked with the file as it is then. While the file can't be
 * read or has no certificate, the last good certificates stay in force.
 */
export class CaBundle {
  readonly #options: CaBundleOptions;
  /** Of the file that was looked at last, whether it was good or not. */
  #seen: string | undefined;
  #pem: string | undefined;
  #certificates: readonly string[] | undefined;
  #context: SecureContext | undefined;

  /** Throws when the only authorities that are to be trusted can't be read. */
  constructor(options: CaBundleOptions) {
    this.#options = options;
    if (!options.isExclusive) return;
    const { path, setting, log } = options;
    this.#seen = versionOf(path);
    try {
      this.#pem = this.#read();
    } catch (error) {
      if (options.isKnownToWork !== true) throw error;
      log?.warn({ path, setting, err: error }, "failed to read CA bundle");
    }
  }

  /**
   * The authorities to trust now: an array that stays the same while the file does. Throws
   * AwayFailure when there was never a good one.
   */
  certificates(): readonly string[] {
    this.#refresh();
    const own = this.#pem === undefined ? [] : [this.#pem];
    return (this.#certificates ??= [...this.#usual(), ...own]);
  }

  /** The certificates for tls.connect(), which takes several milliseconds to parse them. */
  context(): SecureContext {
    const ca = this.certificates();
    return (this.#context ??= loadTls().createSecureContext({ ca: [...ca] }));
  }

  #refresh(): void {
    const { path, log, setting, isExclusive } = this.#options;
    const version = versionOf(path);
    const isFirst = this.#pem === undefined;
    const isNeeded = isFirst && isExclusive;
    if (version === this.#seen && !isNeeded) return;
    this.#seen = version;
    try {
      this.#pem = this.#read();
      this.#certificates = undefined;
      this.#context = undefined;
      if (!isFirst || isNeeded) log?.info({ path }, "CA bundle reloaded");
    } catch (error) {
      if (isNeeded && error instanceof Failure) throw new AwayFailure(error.message, error);
      log?.warn({ path, setting, err: error }, "failed to read CA bundle");
    }
  }

  #read(): string {
    const { path, setting } = this.#options;
    let text: string;
    try {
      text = readFileSync(path, "utf8");
    } catch (error) {
      throw new Failure("invalid", `${setting} ${path}: can't be read`, error);
    }
    if (CERTIFICATE.test(text)) return text;
    throw new Failure("invalid", `${setting} ${path}: must be a PEM file with certificates`);
  }

  /** Without those of NODE_EXTRA_CA_CERTS, which Node has read at its start and never again. */
  #usual(): string[] {
    if (this.#options.isExclusive) return [];
    const { getCACertificates } = loadTls();
    const extra = new Set(getCACertificates("extra"));
    return getCACertificates("default").filter((one) => !extra.has(one));
  }
}

/** Undefined for a file that is not there or out of reach: reading it tells why. */
function versionOf(path: string): string | undefined {
  try {
    const { dev, ino, size, mtimeNs } = statSync(path, { bigint: true });
    return [dev, ino, size, mtimeNs].join();
  } catch {
    return undefined;
  }
}

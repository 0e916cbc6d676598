import { readFileSync, statSync } from "node:fs";
import { Failure } from "../base/failure.ts";
import { Secret } from "../base/secret.ts";
import type { Credentials, CredentialSource } from "./credentials.ts";

const LOOK_AGAIN_MS = 1_000;

/**
 * A profile of the files that the AWS tools share. Looked at again when a file has changed or the
 * keys are refused: who rotates keys only writes the file. While it is half-written, or gone, the
 * former keys stay in use.
 */
export class SharedCredentials implements CredentialSource {
  readonly #paths: readonly string[];
  readonly #profile: string;
  #stamp: string;
  #lookedMs = performance.now();
  #credentials: Credentials;

  /** Throws when there are no keys to begin with, and says where it has looked. */
  constructor(paths: readonly string[], profile: string) {
    this.#paths = paths;
    this.#profile = profile;
    this.#stamp = stampOf(paths);
    this.#credentials = this.#read();
  }

  current(): Credentials {
    if (performance.now() - this.#lookedMs >= LOOK_AGAIN_MS) {
      const stamp = stampOf(this.#paths);
      if (stamp !== this.#stamp) this.renew(this.#credentials);
      this.#stamp = stamp;
      this.#lookedMs = performance.now();
    }
    return this.#credentials;
  }

  renew(refused: Credentials): boolean {
    if (refused !== this.#credentials) return true; // another request was refused before
    try {
      const found = this.#read();
      if (isSame(found, this.#credentials)) return false;
      this.#credentials = found;
      return true;
    } catch {
      return false;
    }
  }

  #read(): Credentials {
    for (const path of this.#paths) {
      const section = readSections(path).get(this.#profile);
      const accessKeyId = section?.get("aws_access_key_id");
      const secretAccessKey = section?.get("aws_secret_access_key");
      if (!accessKeyId || !secretAccessKey) continue;
      const token = section?.get("aws_session_token");
      return {
        accessKeyId,
        secretAccessKey: new Secret(secretAccessKey),
        sessionToken: token ? new Secret(token) : undefined,
      };
    }
    const places = this.#paths.join(" and ");
    throw new Failure("denied", `profile ${this.#profile}: no access key in ${places}`);
  }
}

/** An ini file; `[profile x]`, as the configuration file spells it, is `x`. */
function readSections(path: string): Map<string, Map<string, string>> {
  const sections = new Map<string, Map<string, string>>();
  let section = new Map<string, string>();
  for (const line of textOf(path).split("\n")) {
    const title = /^\s*\[\s*(?:profile\s+)?([^\]]*?)\s*\]/.exec(line)?.[1];
    if (title !== undefined) {
      section = sections.get(title) ?? new Map<string, string>();
      sections.set(title, section);
      continue;
    }
    const [, name = "", value = ""] = /^([a-z0-9_]+)\s*=\s*(.*?)\s*$/i.exec(line) ?? [];
    if (name !== "") section.set(name.toLowerCase(), value);
  }
  return sections;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function stampOf(paths: readonly string[]): string {
  const stamps = paths.map((path) => {
    const stat = statSync(path, { throwIfNoEntry: false });
    return stat === undefined ? "" : `${stat.ino}:${stat.size}:${stat.mtimeMs}`;
  });
  return stamps.join(" ");
}

function isSame(one: Credentials, other: Credentials): boolean {
  return (
    one.accessKeyId === other.accessKeyId &&
    one.secretAccessKey.reveal() === other.secretAccessKey.reveal() &&
    one.sessionToken?.reveal() === other.sessionToken?.reveal()
  );
}

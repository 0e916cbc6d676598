import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../base/failure.ts";
import type { Credentials } from "../handover/messages.ts";

const NAMES = {
  accessKeyId: "aws_access_key_id",
  secretAccessKey: "aws_secret_access_key",
  sessionToken: "aws_session_token",
} as const;

/**
 * Keys for a program that takes them from the AWS tools' shared files alone. The directory is
 * memory: nothing of it is ever on a disk. A reader finds the old keys or the new, never a half.
 */
export class CredentialsFile {
  readonly #path: string;
  readonly #config: string;

  constructor(dir: string) {
    this.#path = join(dir, "credentials");
    this.#config = join(dir, "config");
    this.#replace(this.#config, "[default]\n");
    rmSync(this.#path, { force: true }); // of the container before this one
  }

  /** Null: requests are not signed, and there is nothing to find. */
  write(credentials: Credentials | null): void {
    if (credentials === null) return rmSync(this.#path, { force: true });
    this.#replace(this.#path, textOf(credentials));
  }

  /**
   * Where to look, and where not: without the last, a program without keys would go on with those
   * of the machine.
   */
  get env(): Record<string, string> {
    return {
      AWS_SHARED_CREDENTIALS_FILE: this.#path,
      AWS_CONFIG_FILE: this.#config, // else it has to know its home, and a pod has none
      AWS_EC2_METADATA_DISABLED: "true",
    };
  }

  #replace(path: string, text: string): void {
    const next = `${path}.next`;
    try {
      rmSync(next, { force: true });
      writeFileSync(next, text, { mode: 0o600, flag: "wx" });
      renameSync(next, path);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new Failure("refused", `can't write the keys for mount-s3 to ${path}: ${code}`, error);
    }
  }
}

function textOf(credentials: Credentials): string {
  const lines = ["[default]"];
  for (const [field, name] of Object.entries(NAMES)) {
    const value = credentials[field as keyof typeof NAMES];
    if (value === undefined) continue;
    // A line's end within would begin another setting; the value itself is nobody's to see.
    if (!/^[!-~]+$/.test(value)) {
      throw new Failure("invalid", `${field}: the engine mount-s3 takes printable ASCII only`);
    }
    lines.push(`${name} = ${value}`);
  }
  return `${lines.join("\n")}\n`;
}

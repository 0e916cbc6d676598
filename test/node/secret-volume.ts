import {
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

export type SecretFiles = Readonly<Record<string, string>>;

/** A Secret or ConfigMap volume, updated in the steps of the kubelet's AtomicWriter. */
export class SecretVolume {
  readonly path: string;
  #versions = 0;

  /** Empty, as the volume of an optional Secret that does not exist. */
  constructor(path: string) {
    this.path = path;
    mkdirSync(path);
    this.update({});
  }

  update(files: SecretFiles): void {
    const [data, next] = [join(this.path, "..data"), join(this.path, "..data_tmp")];
    const before = this.#versions === 0 ? undefined : readlinkSync(data);
    const version = `..2026_01_01_00_00_00.${(this.#versions += 1)}`;
    mkdirSync(join(this.path, version));
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(this.path, version, name), text);
    }
    symlinkSync(version, next);
    renameSync(next, data);
    const links = readdirSync(this.path).filter((name) => !name.startsWith(".."));
    for (const name of Object.keys(files)) {
      if (!links.includes(name)) symlinkSync(join("..data", name), join(this.path, name));
    }
    for (const name of links) {
      if (!(name in files)) rmSync(join(this.path, name));
    }
    if (before !== undefined) rmSync(join(this.path, before), { recursive: true });
  }
}

/** The files of a Secret with these credentials. */
export function secretFilesOf(access: {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}): SecretFiles {
  return { access_key_id: access.accessKeyId, secret_access_key: `${access.secretAccessKey}\n` };
}

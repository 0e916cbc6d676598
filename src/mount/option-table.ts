/**
 * mount-s3's options, so that a volume written for it works unchanged. `idle` ones only tune
 * what this engine does by itself; `refused` ones would change what the user gets.
 */
interface OptionSpec {
  readonly type: "boolean" | "string";
  readonly short?: string;
  readonly use: "used" | "idle" | "refused";
  readonly help: string;
}

const flag = (help: string, short?: string): OptionSpec => ({
  type: "boolean",
  use: "used",
  help,
  ...(short === undefined ? {} : { short }),
});
const value = (help: string): OptionSpec => ({ type: "string", use: "used", help });
const idle = (type: OptionSpec["type"], short?: string): OptionSpec => ({
  type,
  use: "idle",
  help: "accepted, without effect",
  ...(short === undefined ? {} : { short }),
});
const refused = (type: OptionSpec["type"], short?: string): OptionSpec => ({
  type,
  use: "refused",
  help: "not offered",
  ...(short === undefined ? {} : { short }),
});

export const OPTION_TABLE = {
  prefix: value("serve only keys under this prefix; ends with /"),
  region: value("region that signatures name (else AWS_REGION, else us-east-1)"),
  "endpoint-url": value("http(s) URL of the S3 endpoint (else AWS_ENDPOINT_URL)"),
  "force-path-style": flag("bucket in the path, not in the host name"),
  "requester-pays": flag("agree to pay for requests and transfer"),
  "expected-bucket-owner": value("account that must own the bucket"),
  "storage-class": value("storage class of new objects"),
  sse: value("encryption of new objects: aws:kms, aws:kms:dsse or AES256"),
  "sse-kms-key-id": value("key ARN for aws:kms and aws:kms:dsse"),
  "upload-checksums": value("of uploads: crc32 (default), crc32c, sha256 or off"),
  "no-sign-request": flag("anonymous requests"),
  "read-only": flag("refuse all changes"),
  "allow-delete": flag("allow files to be deleted"),
  "allow-overwrite": flag("allow files to be replaced (opened with O_TRUNC)"),
  "allow-other": flag("let all users in"),
  "allow-root": flag("let root in as well"),
  uid: value("owner of all files (default: who runs this)"),
  gid: value("group of all files"),
  "dir-mode": value("permissions of directories, octal (0755)"),
  "file-mode": value("permissions of files, octal (0644)"),
  "metadata-ttl": value("seconds, indefinite or minimal: how long metadata is trusted"),
  "negative-metadata-ttl": value("the same for names that do not exist"),
  "part-size": value("bytes of a part, for reads and writes (8388608)"),
  "read-part-size": value("bytes of a part of a read"),
  "write-part-size": value("bytes of a part of a write"),
  "memory-target": value("MiB for data on its way"),
  "ca-bundle": value("PEM file of the authorities to trust (else AWS_CA_BUNDLE)"),
  "user-agent-prefix": value("put before our user agent"),
  cache: value("accepted; sets metadata-ttl to 60 s"),
  foreground: flag("accepted: it always runs in the foreground", "f"),
  debug: flag("log more", "d"),
  "no-log": flag("log errors only"),
  help: flag("show this text", "h"),
  "auto-unmount": idle("boolean"),
  "bucket-type": idle("string"),
  "maximum-throughput-gbps": idle("string"),
  "max-threads": idle("string"),
  "log-directory": idle("string", "l"),
  "log-metrics": idle("boolean"),
  "debug-crt": idle("boolean"),
  "otlp-endpoint": idle("string"),
  "otlp-export-interval": idle("string"),
  "max-cache-size": idle("string"),
  "cache-block-size": idle("string"),
  "transfer-acceleration": refused("boolean"),
  "dual-stack": refused("boolean"),
  "infer-content-type": refused("boolean"),
  "incremental-upload": refused("boolean"),
  profile: refused("string"),
  bind: refused("string"),
  "cache-xz": refused("string"),
  options: refused("string", "o"),
} as const satisfies Record<string, OptionSpec>;

export type OptionName = keyof typeof OPTION_TABLE;

export function usage(): string {
  const lines = Object.entries<OptionSpec>(OPTION_TABLE)
    .filter(([, spec]) => spec.use === "used")
    .map(([name, spec]) => {
      const short = spec.short === undefined ? "   " : `-${spec.short},`;
      const argument = spec.type === "string" ? " VALUE" : "";
      return `  ${short} --${`${name}${argument}`.padEnd(30)} ${spec.help}`;
    });
  return [
    "usage: s3csi mount BUCKET DIRECTORY [options]",
    "",
    "Serves an S3 bucket (NAME or s3://NAME/PREFIX/) as a directory until it is unmounted.",
    "Keys come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.",
    "",
    ...lines,
    "",
  ].join("\n");
}

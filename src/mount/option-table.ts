/**
 * mount-s3's options, so that a volume written for it works unchanged. What each one means is in
 * this one table: the command line, --help, docs/options.md and the tests are made from it.
 */
export interface OptionSpec {
  readonly group: string;
  readonly type: "boolean" | "string";
  readonly short?: string;
  /** The option may be given more than once. */
  readonly multiple?: true;
  /** How its value is called in the help. */
  readonly argument?: string;
  /** `idle`: it only tunes what we do by ourselves. `refused`: it would change what one gets. */
  readonly use: "used" | "idle" | "refused";
  readonly help: string;
  /** A value that is fine, and one that is not; the tests try both. */
  readonly right?: string;
  readonly wrong?: string;
}

type Values = Pick<OptionSpec, "right" | "wrong">;

function flags(group: string, use: OptionSpec["use"]) {
  return (help: string, short?: string): OptionSpec => {
    const base = { group, type: "boolean", use, help } as const;
    return short === undefined ? base : { ...base, short };
  };
}

function values(group: string, use: OptionSpec["use"]) {
  return (argument: string, help: string, tried: Values, short?: string): OptionSpec => {
    const base = { group, type: "string", use, argument, help, ...tried } as const;
    return short === undefined ? base : { ...base, short };
  };
}

const [bucketFlag, bucketValue] = [flags("Bucket", "used"), values("Bucket", "used")];
const [keysFlag, keysValue] = [flags("Credentials", "used"), values("Credentials", "used")];
const [mountFlag, mountValue] = [flags("Mount", "used"), values("Mount", "used")];
const [clientFlag, clientValue] = [flags("Client", "used"), values("Client", "used")];
const cacheValue = values("Caching", "used");
const [logFlag, logValue] = [flags("Logging", "used"), values("Logging", "used")];
const idleValue = values("Accepted, without effect (a line in the log says so)", "idle");
const idleFlag = flags("Accepted, without effect (a line in the log says so)", "idle");
const refusedValue = values("Refused", "refused");
const refusedFlag = flags("Refused", "refused");

const PART = { right: "5242880", wrong: "100" };
const ID = { right: "0", wrong: "root" };
const MODE = { right: "0750", wrong: "999" };
const TTL = { right: "indefinite", wrong: "soon" };
const HEADER = { wrong: "a\u0000b" };
const COUNT = { right: "4", wrong: "many" };

export const OPTION_TABLE = {
  prefix: bucketValue("PREFIX", "serve only keys under this prefix, which ends with `/`", {
    right: "a/b/",
    wrong: "a/b",
  }),
  region: bucketValue("NAME", "region of the bucket (AWS_REGION, us-east-1, or what S3 says)", {
    right: "eu-central-1",
    wrong: "eu central",
  }),
  "endpoint-url": bucketValue("URL", "S3 endpoint, http or https (AWS_ENDPOINT_URL)", {
    right: "http://localhost:9000",
    wrong: "localhost",
  }),
  "force-path-style": bucketFlag(
    "bucket in the path, not in the host name; so on any --endpoint-url",
  ),
  "transfer-acceleration": bucketFlag("by the accelerated endpoint of AWS"),
  "dual-stack": bucketFlag("by the endpoint of AWS that has IPv6 too"),
  "requester-pays": bucketFlag("agree to pay for requests and transfer"),
  "bucket-type": bucketValue("TYPE", "only general-purpose is served", {
    right: "general-purpose",
    wrong: "directory",
  }),
  "storage-class": bucketValue("CLASS", "storage class of new objects", {
    right: "STANDARD_IA",
    wrong: "cold please",
  }),
  "expected-bucket-owner": bucketValue(
    "ACCOUNT",
    "refuse a bucket of any other account, and a server that can't tell",
    {
      right: "111122223333",
      ...HEADER,
    },
  ),
  sse: bucketValue("TYPE", "encryption of new objects: aws:kms, aws:kms:dsse or AES256", {
    right: "AES256",
    wrong: "rot13",
  }),
  "sse-kms-key-id": bucketValue("ARN", "key for --sse aws:kms and aws:kms:dsse", { wrong: "key" }),
  "upload-checksums": bucketValue("KIND", "of uploads: crc32 (default), crc32c, sha256 or off", {
    right: "off",
    wrong: "md5",
  }),
  "infer-content-type": bucketFlag("set the content type of new objects by their file extension"),
  "no-sign-request": keysFlag("anonymous requests"),
  profile: keysValue("NAME", "profile of the shared files, before all other keys (AWS_PROFILE)", {
    right: "dev",
    wrong: "a]b",
  }),
  "read-only": mountFlag("refuse all changes"),
  "allow-delete": mountFlag("allow files to be deleted"),
  "allow-overwrite": mountFlag("allow files to be replaced (opened with O_TRUNC)"),
  "allow-root": mountFlag("let root in too, not only who runs this"),
  "allow-other": mountFlag("let everybody in"),
  uid: mountValue("ID", "owner of all files (who runs this); 0 is fine", ID),
  gid: mountValue("ID", "group of all files (who runs this); 0 is fine", ID),
  "dir-mode": mountValue("MODE", "permissions of directories, octal (0755)", MODE),
  "file-mode": mountValue("MODE", "permissions of files, octal (0644)", MODE),
  foreground: mountFlag("it always runs in the foreground", "f"),
  help: mountFlag("show this text", "h"),
  "memory-target": clientValue("MIB", "for data on its way (a quarter of what there is, to 512)", {
    right: "512",
    wrong: "1",
  }),
  "inode-limit": clientValue("COUNT", "files remembered before the oldest are let go (200000)", {
    right: "1000",
    wrong: "3",
  }),
  "no-resend": clientFlag("resume by the request slots alone, as on kernels before 6.9"),
  "no-journal": clientFlag("keep no journal: the mount ends with its engine"),
  "outage-limit": clientValue("SECONDS", "how long an endpoint that is away is waited for (60)", {
    right: "120",
    wrong: "0",
  }),
  "part-size": clientValue("BYTES", "part of a read or an upload (8388608)", PART),
  "read-part-size": clientValue("BYTES", "part of a read, and the most of one GET", PART),
  "write-part-size": clientValue("BYTES", "part of an upload; 10,000 of them at most", PART),
  "ca-bundle": clientValue("FILE", "PEM file of the only authorities to trust (AWS_CA_BUNDLE)", {
    right: "/etc/ca.pem",
  }),
  bind: {
    ...clientValue("INTERFACE", "connect from this interface's address, or this; repeatable", {
      right: "eth0",
      wrong: "eth 0",
    }),
    multiple: true,
  },
  "user-agent-prefix": clientValue("TEXT", "put before our user agent", { right: "me", ...HEADER }),
  "metadata-ttl": cacheValue("TTL", "seconds, indefinite or minimal: trust in metadata (1)", TTL),
  "negative-metadata-ttl": cacheValue("TTL", "the same for names that do not exist (0)", TTL),
  cache: cacheValue("DIR", "keep contents in DIR/s3csi-cache, sets both TTLs to 60", {
    right: "/var/cache",
    wrong: "",
  }),
  "max-cache-size": cacheValue("MIB", "limit of --cache (all but 5 % of the file system)", {
    wrong: "much",
  }),
  "log-directory": logValue(
    "DIR",
    "log to a new file in there, not to stdout",
    { right: "/tmp" },
    "l",
  ),
  debug: logFlag("log more", "d"),
  "no-log": logFlag("log nothing"),
  "auto-unmount": idleFlag("it unmounts when it ends by SIGTERM or SIGINT"),
  "maximum-throughput-gbps": idleValue("GBPS", "the window grows with the reader", COUNT),
  "max-threads": idleValue("COUNT", "one thread does it all", COUNT),
  "cache-block-size": idleValue("BYTES", "blocks of --cache have 1 MiB", COUNT),
  "log-metrics": idleFlag("metrics are not logged"),
  "debug-crt": idleFlag("there is no such library"),
  "otlp-endpoint": idleValue("URL", "metrics are not exported", { right: "http://localhost:4318" }),
  "otlp-export-interval": idleValue("SECONDS", "metrics are not exported", COUNT),
  "incremental-upload": refusedFlag("objects are made as a whole"),
  "cache-xz": refusedValue("BUCKET", "there is no shared cache", {}),
  options: refusedValue("LIST", "write them as options of their own", {}, "o"),
} as const satisfies Record<string, OptionSpec>;

export type OptionName = keyof typeof OPTION_TABLE;

export const OPTIONS: ReadonlyMap<string, OptionSpec> = new Map(Object.entries(OPTION_TABLE));

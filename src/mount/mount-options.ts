import { Failure } from "../base/failure.ts";
import type { Environment } from "../base/flags.ts";
import type { EngineConfig } from "../engine/engine-config.ts";
import { OWNER_HEADER } from "../s3/bucket-owner.ts";
import { proxyFor } from "../s3/http-proxy.ts";
import type { Endpoint, HttpProxy } from "../s3/http-proxy.ts";
import { isOptionName, splitCommandLine, text, texts } from "./given-options.ts";
import type { Values } from "./given-options.ts";
import {
  attemptsOf,
  cacheOf,
  inMemoryBytesOf,
  memoryOf,
  outageLimitOf,
  requestLimitOf,
} from "./limit-options.ts";
import type { CacheOptions } from "./limit-options.ts";
import type { MemoryBudget } from "./memory-budget.ts";
import { OPTION_TABLE } from "./option-table.ts";
import type { OptionName } from "./option-table.ts";
import {
  headerText,
  keyPrefix,
  matching,
  octalMode,
  oneOf,
  ttlMs,
  wholeNumber,
} from "./option-values.ts";

const MIB = 1 << 20;
const DEFAULT_PART_BYTES = 8 * MIB;
const PART_BOUNDS = { min: 5 * MIB, max: 5 * 1024 * MIB };
const ID_BOUNDS = { min: 0, max: 0xffff_fffe };
const DEFAULT_TTL_MS = 1000;
const CACHE_TTL_MS = 60_000;
const CHECKSUMS = ["crc32", "crc32c", "sha256", "off"] as const;

export interface MountOptions {
  readonly bucket: string;
  readonly directory: string;
  /** The N of `/dev/fd/N`: the connection is there already, and mounted by somebody else. */
  readonly inheritedFd: number | undefined;
  readonly region: string;
  /** The region was asked for by the option; else the one that S3 names is as good. */
  readonly regionIsFixed: boolean;
  /** Names of interfaces, or addresses, that connections start from; empty: the kernel's choice. */
  readonly bind: readonly string[];
  readonly endpointUrl: string | undefined;
  readonly forcePathStyle: boolean;
  readonly dualStack: boolean;
  readonly accelerated: boolean;
  readonly signs: boolean;
  readonly profile: string | undefined;
  /** How S3 verifies what it receives. */
  readonly checksum: (typeof CHECKSUMS)[number];
  readonly caBundlePath: string | undefined;
  /** Authorities to trust besides the usual ones; not with `caBundlePath`. */
  readonly extraCaPath: string | undefined;
  /** The proxy on the way to an endpoint, by the environment. */
  readonly proxyFor: (endpoint: Endpoint) => HttpProxy | undefined;
  readonly userAgentPrefix: string;
  readonly attemptsMax: number;
  /** An endpoint that is away so long is an error of the applications. */
  readonly outageLimitMs: number;
  readonly requestHeaders: Readonly<Record<string, string>>;
  readonly objectHeaders: Readonly<Record<string, string>>;
  /** New objects get a content type by the extension of their names. */
  readonly infersContentType: boolean;
  readonly lets: "owner" | "root" | "all";
  readonly logLevel: "debug" | "info" | "silent";
  readonly logDirectory: string | undefined;
  readonly cache: CacheOptions | undefined;
  readonly engine: EngineConfig;
  readonly memory: MemoryBudget;
  readonly hidesResend: boolean;
  readonly keepsJournal: boolean;
  /** Given and without effect: worth a line in the log. */
  readonly idle: readonly string[];
}

/** Reads the command line. Undefined: help was asked for. Every error names its option. */
export function readMountOptions(
  argv: readonly string[],
  env: Environment,
): MountOptions | undefined {
  const { values, positionals } = splitCommandLine(argv);
  if (values.help === true) return undefined;
  const names = Object.keys(values).filter(isOptionName);
  refuse(names, values);
  const [source, directory] = positionals;
  if (source === undefined || directory === undefined || positionals.length > 2) {
    throw new Failure("invalid", "BUCKET and DIRECTORY are expected (see --help)");
  }
  const { bucket, prefix } = readSource(source, text(values, "prefix"));
  const memory = memoryOfValues(values);
  const inherited = /^\/dev\/fd\/(\d{1,6})$/.exec(directory)?.[1];
  return Object.freeze({
    bucket,
    directory,
    inheritedFd: inherited === undefined ? undefined : Number(inherited),
    region: regionOf(values, env),
    regionIsFixed: values.region !== undefined,
    bind: bindOf(values),
    ...endpointOf(values, env, bucket),
    signs: values["no-sign-request"] !== true,
    profile: profileOf(values),
    checksum: checksumOf(text(values, "upload-checksums")),
    caBundlePath: text(values, "ca-bundle") ?? nonEmpty(env["AWS_CA_BUNDLE"]),
    extraCaPath: nonEmpty(env["NODE_EXTRA_CA_CERTS"]),
    proxyFor: (endpoint: Endpoint) => proxyFor(endpoint, env),
    userAgentPrefix: headerText("user-agent-prefix", text(values, "user-agent-prefix") ?? ""),
    attemptsMax: attemptsOf(env["AWS_MAX_ATTEMPTS"]),
    outageLimitMs: outageLimitOf(text(values, "outage-limit")),
    ...headersOf(values),
    infersContentType: values["infer-content-type"] === true,
    lets: values["allow-other"] === true ? "all" : values["allow-root"] === true ? "root" : "owner",
    logLevel: values.debug === true ? "debug" : values["no-log"] === true ? "silent" : "info",
    logDirectory: text(values, "log-directory"),
    cache: cacheOfValues(values),
    engine: engineConfig(values, prefix, memory),
    memory,
    hidesResend: values["no-resend"] === true,
    keepsJournal: values["no-journal"] !== true,
    idle: names.filter((name) => OPTION_TABLE[name].use === "idle").map((name) => `--${name}`),
  });
}

function refuse(names: readonly OptionName[], values: Values): void {
  for (const name of names) {
    if (OPTION_TABLE[name].use === "refused") {
      throw new Failure("refused", `--${name} is not offered: ${OPTION_TABLE[name].help}`);
    }
  }
  for (const [one, other] of [
    ["allow-other", "allow-root"],
    ["part-size", "read-part-size"],
    ["part-size", "write-part-size"],
    ["no-sign-request", "profile"],
    ["no-log", "log-directory"],
    ["no-log", "debug"],
    ["transfer-acceleration", "force-path-style"],
  ] as const) {
    if (values[one] !== undefined && values[other] !== undefined) {
      throw new Failure("invalid", `--${one} and --${other} exclude each other`);
    }
  }
  checkIdle(values);
}

/** What has no effect has to be right all the same: a typing error must not wait for its day. */
function checkIdle(values: Values): void {
  const whole = { min: 1, max: 1e12 };
  for (const name of ["max-threads", "cache-block-size"] as const) {
    const given = text(values, name);
    if (given !== undefined) wholeNumber(name, given, whole);
  }
  for (const name of ["maximum-throughput-gbps", "otlp-export-interval"] as const) {
    const given = text(values, name);
    if (given !== undefined) matching(name, given, /^\d+(\.\d+)?$/, "a number is expected");
  }
  const type = text(values, "bucket-type") ?? "general-purpose";
  oneOf("bucket-type", type, ["general-purpose"]);
}

function regionOf(values: Values, env: Environment): string {
  const given = text(values, "region");
  const region = given ?? nonEmpty(env["AWS_REGION"]) ?? nonEmpty(env["AWS_DEFAULT_REGION"]);
  return matching(
    "region",
    region ?? "us-east-1",
    /^[\w-]+$/,
    "a name such as eu-west-1 is expected",
  );
}

function bindOf(values: Values): readonly string[] {
  return texts(values, "bind").map((name) => {
    return matching("bind", name, /^[\w.:@-]+$/, "a network interface or its address is expected");
  });
}

function profileOf(values: Values): string | undefined {
  const profile = text(values, "profile");
  if (profile === undefined) return undefined;
  return matching("profile", profile, /^[^[\]\s]+$/, "the name of a profile is expected");
}

function endpointOf(values: Values, env: Environment, bucket: string) {
  const given = text(values, "endpoint-url") ?? nonEmpty(env["AWS_ENDPOINT_URL"]);
  const endpointUrl =
    given && matching("endpoint-url", given, /^https?:\/\/[^/]/, "an http(s) URL is expected");
  for (const name of ["transfer-acceleration", "dual-stack"] as const) {
    if (values[name] === undefined || endpointUrl === undefined) continue;
    throw new Failure("invalid", `--${name} and --endpoint-url ${endpointUrl} exclude each other`);
  }
  const accelerated = values["transfer-acceleration"] === true;
  if (accelerated && bucket.includes(".")) {
    throw new Failure("invalid", `--transfer-acceleration needs a bucket without dots: ${bucket}`);
  }
  return {
    endpointUrl,
    forcePathStyle: values["force-path-style"] === true,
    dualStack: values["dual-stack"] === true,
    accelerated,
  };
}

function readSource(source: string, givenPrefix: string | undefined) {
  const uri = /^s3:\/\/([^/]+)\/?(.*)$/s.exec(source);
  const bucket = uri?.[1] ?? source;
  if (!/^[a-zA-Z0-9][a-zA-Z0-9._-]{1,254}$/.test(bucket)) {
    throw new Failure(
      "invalid",
      `BUCKET ${source}: a bucket name or s3://NAME/PREFIX/ is expected`,
    );
  }
  const uriPrefix = uri?.[2] ?? "";
  if (uriPrefix !== "" && givenPrefix !== undefined) {
    throw new Failure("invalid", "--prefix and a prefix in the bucket's URI exclude each other");
  }
  return { bucket, prefix: keyPrefix("prefix", givenPrefix ?? uriPrefix) };
}

function headersOf(values: Values) {
  const requestHeaders: Record<string, string> = {};
  const objectHeaders: Record<string, string> = {};
  const set = (headers: Record<string, string>, header: string, name: OptionName) => {
    const given = text(values, name);
    if (given !== undefined) headers[header] = headerText(name, given);
  };
  if (values["requester-pays"] === true) requestHeaders["x-amz-request-payer"] = "requester";
  set(requestHeaders, OWNER_HEADER, "expected-bucket-owner");
  const storageClass = text(values, "storage-class");
  if (storageClass !== undefined) {
    matching(
      "storage-class",
      storageClass,
      /^[A-Z0-9_]+$/,
      "a name such as STANDARD_IA is expected",
    );
    objectHeaders["x-amz-storage-class"] = storageClass;
  }
  const sse = text(values, "sse");
  if (sse !== undefined) {
    oneOf("sse", sse, ["aws:kms", "aws:kms:dsse", "AES256"]);
    objectHeaders["x-amz-server-side-encryption"] = sse;
  }
  const key = text(values, "sse-kms-key-id");
  if (key !== undefined) {
    matching("sse-kms-key-id", key, /^arn:[\w-]+:kms:[!-~]+$/, "the ARN of a key is expected");
    if (!sse?.startsWith("aws:kms")) {
      throw new Failure("invalid", "--sse-kms-key-id needs --sse aws:kms or aws:kms:dsse");
    }
    objectHeaders["x-amz-server-side-encryption-aws-kms-key-id"] = key;
  }
  return { requestHeaders, objectHeaders };
}

function cacheOfValues(values: Values): CacheOptions | undefined {
  return cacheOf(text(values, "cache"), text(values, "max-cache-size"));
}

function memoryOfValues(values: Values): MemoryBudget {
  return memoryOf({
    target: text(values, "memory-target"),
    inodeLimit: text(values, "inode-limit"),
    writePartBytes: sizeOf(values, "write-part-size") ?? sizeOf(values, "part-size"),
    hasCache: values.cache !== undefined,
    cacheInMemoryBytes: inMemoryBytesOf(cacheOfValues(values)),
  });
}

function engineConfig(values: Values, prefix: string, memory: MemoryBudget): EngineConfig {
  const metadataTtl = ttlOf(values, "metadata-ttl");
  const cached = values.cache === undefined ? undefined : CACHE_TTL_MS;
  const readPart = sizeOf(values, "read-part-size") ?? sizeOf(values, "part-size");
  // A size that somebody has chosen is that of every GET; a cache asks for what it lacks.
  const longGets = readPart === undefined && cached === undefined;
  return {
    prefix,
    readOnly: values["read-only"] === true,
    allowDelete: values["allow-delete"] === true,
    allowOverwrite: values["allow-overwrite"] === true,
    uid: idOf(values, "uid") ?? process.getuid?.() ?? 0,
    gid: idOf(values, "gid") ?? process.getgid?.() ?? 0,
    directoryMode: octalMode("dir-mode", text(values, "dir-mode") ?? "0755"),
    fileMode: octalMode("file-mode", text(values, "file-mode") ?? "0644"),
    metadataTtlMs: metadataTtl ?? cached ?? DEFAULT_TTL_MS,
    // By default only names and attributes are remembered, never that a version is the last one.
    revalidatesOpens: metadataTtl === undefined && cached === undefined,
    // A name that is absent by default is absent now: what others create shows at once.
    negativeTtlMs: ttlOf(values, "negative-metadata-ttl") ?? metadataTtl ?? cached ?? 0,
    requestLimitMs: requestLimitOf(outageLimitOf(text(values, "outage-limit"))),
    reads: { partBytes: readPart ?? DEFAULT_PART_BYTES, longGets },
    writePartSizeBytes: memory.writePartBytes,
    memoryBytes: memory.readBytes,
    blockedWriteBytes: memory.heldWriteBytes,
    inodesMax: memory.inodes,
  };
}

/** The cheapest one by default. S3 computes crc64nvme by itself: ours would only be slower. */
function checksumOf(given: string | undefined): MountOptions["checksum"] {
  if (given === undefined || given === "crc64nvme") return "crc32";
  return oneOf("upload-checksums", given, CHECKSUMS);
}

function ttlOf(values: Values, name: OptionName): number | undefined {
  const given = text(values, name);
  return given === undefined ? undefined : ttlMs(name, given);
}

function sizeOf(values: Values, name: OptionName): number | undefined {
  const given = text(values, name);
  return given === undefined ? undefined : wholeNumber(name, given, PART_BOUNDS);
}

function idOf(values: Values, name: OptionName): number | undefined {
  const given = text(values, name);
  return given === undefined ? undefined : wholeNumber(name, given, ID_BOUNDS);
}

function nonEmpty(given: string | undefined): string | undefined {
  return given === "" ? undefined : given;
}

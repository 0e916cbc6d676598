import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { findCredentials } from "./find-credentials.ts";
import { readMountOptions } from "./mount-options.ts";
import { OPTIONS } from "./option-table.ts";
import type { MountOptions } from "./mount-options.ts";

function read(line: string, env: Record<string, string> = {}): MountOptions {
  const options = readMountOptions(line.split(" ").filter(Boolean), env);
  assert(options !== undefined);
  return options;
}

test("defaults are mount-s3's", () => {
  const { engine, ...options } = read("bucket /mnt");
  assert.equal(engine.prefix, "");
  assert.deepEqual(engine.reads, { partBytes: 8 << 20, longGets: true });
  assert.deepEqual([engine.directoryMode, engine.fileMode], [0o755, 0o644]);
  assert.deepEqual([engine.metadataTtlMs, engine.negativeTtlMs], [1000, 0]);
  assert.deepEqual([options.region, options.lets, options.attemptsMax], ["us-east-1", "owner", 10]);
});

const limits = (line: string) => {
  const { outageLimitMs, engine } = read(`bucket /mnt ${line}`);
  return [outageLimitMs, engine.requestLimitMs];
};

test("requests are waited for longer than an outage", () => {
  assert.deepEqual(limits(""), [60_000, 120_000]);
  assert.deepEqual(limits("--outage-limit 1"), [1000, 120_000]);
  assert.deepEqual(limits("--outage-limit 600"), [600_000, 660_000]);
});

const sizes = (line: string) => {
  const { reads, writePartSizeBytes } = read(`bucket /mnt ${line}`).engine;
  return [reads.partBytes, reads.longGets, writePartSizeBytes];
};

test("a part size that was chosen is that of every GET, and a cache asks for what it lacks", () => {
  assert.deepEqual(sizes("--part-size 6000000"), [6_000_000, false, 6_000_000]);
  assert.deepEqual(sizes("--read-part-size 6000000"), [6_000_000, false, 8 << 20]);
  assert.deepEqual(sizes("--write-part-size 6000000"), [8 << 20, true, 6_000_000]);
  assert.deepEqual(sizes("--part-size 5368709120"), [5 * 1024 ** 3, false, 5 * 1024 ** 3]);
  assert.deepEqual(sizes("--cache /tmp"), [8 << 20, false, 8 << 20]);
});

test("options, environment and URI are read", () => {
  const options = read(
    "s3://bucket/some/dir/ /dev/fd/7 --uid=5 --gid 6 --dir-mode 0700 --metadata-ttl indefinite --allow-root -f",
    { AWS_REGION: "eu-x", AWS_ENDPOINT_URL: "http://h:1", AWS_MAX_ATTEMPTS: "3" },
  );
  assert.equal(options.engine.prefix, "some/dir/");
  assert.equal(options.inheritedFd, 7);
  assert.deepEqual(
    [options.engine.uid, options.engine.gid, options.engine.directoryMode],
    [5, 6, 0o700],
  );
  assert.deepEqual(
    [options.region, options.endpointUrl, options.attemptsMax, options.lets],
    ["eu-x", "http://h:1", 3, "root"],
  );
  assert.equal(options.engine.negativeTtlMs, options.engine.metadataTtlMs);
});

// prettier-ignore
const wrong: [line: string, says: RegExp][] = [
  ["bucket",                              /BUCKET and DIRECTORY/],
  ["bucket /mnt /more",                   /BUCKET and DIRECTORY/],
  ["bucket /mnt --wat",                   /Unknown option '--wat'/],
  ["bucket /mnt --uid abc",               /--uid abc: a whole number from 0/],
  ["bucket /mnt --uid",                   /--uid/],
  ["bucket /mnt --file-mode 999",         /--file-mode 999: an octal mode/],
  ["bucket /mnt --metadata-ttl soon",     /--metadata-ttl soon: seconds, indefinite or minimal/],
  ["bucket /mnt --part-size 100",         /--part-size 100: a whole number from 5242880/],
  ["bucket /mnt --write-part-size 5368709121", /--write-part-size 5368709121: a whole number from 5242880 to 5368709120/],
  ["bucket /mnt --read-part-size 5368709121", /--read-part-size 5368709121: a whole number from 5242880 to 5368709120/],
  ["bucket /mnt --prefix foo",            /--prefix foo: a prefix that ends with \//],
  ["s3://bucket/a/ /mnt --prefix b/",     /exclude each other/],
  ["bucket /mnt --allow-root --allow-other", /exclude each other/],
  ["bucket /mnt --bind eth0 --bind a/b",  /--bind a\/b: a network interface or its address/],
  ["bucket /mnt --dual-stack --endpoint-url http://h", /--dual-stack and --endpoint-url http:\/\/h exclude/],
  ["bucket /mnt --transfer-acceleration --endpoint-url http://h", /--transfer-acceleration and --endpoint-url http:\/\/h exclude/],
  ["b.k.t /mnt --transfer-acceleration",  /bucket without dots/],
  ["bucket /mnt --max-cache-size 5",      /--max-cache-size needs --cache/],
  ["bucket /mnt --no-log --debug",        /exclude each other/],
  ["bucket /mnt --sse rot13",             /--sse rot13: one of aws:kms/],
  ["bucket /mnt --sse-kms-key-id arn:aws:kms:x", /needs --sse/],
  ["bucket /mnt --sse AES256 --sse-kms-key-id arn:aws:kms:x", /needs --sse aws:kms/],
  ["arn:aws:s3:::b /mnt",                 /BUCKET arn:aws:s3:::b: a bucket name or/],
];

for (const [line, says] of wrong) {
  test(`refused with its reason: ${line}`, () => {
    assert.throws(
      () => read(line),
      (error) => error instanceof Failure && says.test(error.message),
    );
  });
}

for (const [name, spec] of OPTIONS) {
  const given = (value: string | undefined) => [
    "bucket",
    "/mnt",
    value === undefined ? `--${name}` : `--${name}=${value}`,
  ];
  const fails = (value: string | undefined, says: string) =>
    assert.throws(
      () => readMountOptions(given(value), {}),
      (error) =>
        error instanceof Failure && error.message.startsWith(says) && !error.message.includes("\n"),
    );
  test(`--${name}: ${spec.use}`, () => {
    const value = spec.type === "boolean" ? undefined : (spec.right ?? "x");
    if (spec.use === "refused") return fails(value, `--${name} is not offered: ${spec.help}`);
    if (spec.type === "boolean" || spec.right !== undefined) {
      const options = readMountOptions(given(value), {});
      assert.deepEqual(options?.idle ?? [], spec.use === "idle" ? [`--${name}`] : []);
    }
    if (spec.wrong === undefined) return;
    fails(spec.wrong, `--${name} `);
  });
}

test("an open asks S3 unless trust in metadata was asked for", () => {
  for (const [given, asks] of [
    ["", true],
    ["--negative-metadata-ttl 5", true],
    ["--metadata-ttl 1", false],
    ["--cache /c", false],
  ] as const) {
    assert.equal(read(`bucket /mnt ${given}`).engine.revalidatesOpens, asks, given);
  }
});

test("a cache has a directory, a limit that may be open, and longer trust in metadata", () => {
  const { cache, engine, idle } = read("bucket /mnt --cache /c --max-cache-size 3");
  assert.deepEqual(cache, { directory: "/c", limitBytes: 3 << 20 });
  assert.deepEqual([engine.metadataTtlMs, engine.negativeTtlMs], [60_000, 60_000]);
  assert.deepEqual(idle, []);
  assert.deepEqual(read("bucket /mnt --cache /c").cache, {
    directory: "/c",
    limitBytes: undefined,
  });
  assert.equal(read("bucket /mnt").cache, undefined);
});

test("options of existing volumes: bind may be repeated, infer-content-type is a flag", () => {
  const { bind, infersContentType } = read(
    "bucket /mnt --bind eth0 --bind=::1 --infer-content-type",
  );
  assert.deepEqual([bind, infersContentType], [["eth0", "::1"], true]);
  const without = read("bucket /mnt");
  assert.deepEqual([without.bind, without.infersContentType], [[], false]);
});

const regionOf = (line: string, env = {}) => {
  const { region, regionIsFixed } = read(`bucket /mnt ${line}`, env);
  return [region, regionIsFixed];
};

test("a region of the environment is where detection starts, that of the option is final", () => {
  assert.deepEqual(regionOf(""), ["us-east-1", false]);
  assert.deepEqual(regionOf("", { AWS_REGION: "eu-x" }), ["eu-x", false]);
  assert.deepEqual(regionOf("--region eu-y", { AWS_REGION: "eu-x" }), ["eu-y", true]);
});

test("headers of requests and of new objects", () => {
  const key = "arn:aws:kms:eu-west-1:1:key/2";
  const options = read(
    `bucket /mnt --requester-pays --expected-bucket-owner 7 --storage-class GLACIER_IR --sse aws:kms --sse-kms-key-id ${key}`,
  );
  assert.deepEqual(options.requestHeaders, {
    "x-amz-request-payer": "requester",
    "x-amz-expected-bucket-owner": "7",
  });
  assert.deepEqual(options.objectHeaders, {
    "x-amz-storage-class": "GLACIER_IR",
    "x-amz-server-side-encryption": "aws:kms",
    "x-amz-server-side-encryption-aws-kms-key-id": key,
  });
});

test("keys: the profile, then the environment, then the shared file; else none", () => {
  const env = { AWS_ACCESS_KEY_ID: "E", AWS_SECRET_ACCESS_KEY: "s", HOME: "/no/such/home" };
  const signed = { signs: true, profile: undefined };
  assert.equal(findCredentials(signed, env)?.current().accessKeyId, "E");
  assert.equal(findCredentials(signed, { HOME: "/no/such/home" }), undefined);
  assert.equal(findCredentials({ signs: false, profile: undefined }, env), undefined);
  assert.throws(
    () => findCredentials({ signs: true, profile: "p" }, env),
    /profile p: no access key in \/no/,
  );
});

test("checksums: the cheapest by default, any of ours when asked for", () => {
  assert.equal(read("bucket /mnt").checksum, "crc32");
  assert.equal(read("bucket /mnt --upload-checksums crc64nvme").checksum, "crc32");
  for (const word of ["crc32", "crc32c", "sha256", "off"]) {
    assert.equal(read(`bucket /mnt --upload-checksums ${word}`).checksum, word);
  }
});

test("help asks for nothing else", () => {
  assert.equal(readMountOptions(["--help"], {}), undefined);
});

test("what only tunes is accepted and named", () => {
  assert.deepEqual(read("bucket /mnt --max-threads 4 --log-metrics").idle, [
    "--max-threads",
    "--log-metrics",
  ]);
});

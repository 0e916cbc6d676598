import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { planMount } from "./mount-options.ts";

const ALWAYS = ["--force-path-style", "--allow-root"];

// prettier-ignore
const cases: [name: string, options: string[], fsGroup: string, args: string[]][] = [
  ["nothing asked",                 [],                                "",     ALWAYS],
  ["key=value",                     ["prefix=a/"],                     "",     ["--prefix=a/", ...ALWAYS]],
  ["key value",                     ["prefix a/"],                     "",     ["--prefix=a/", ...ALWAYS]],
  ["a bare key",                    ["allow-delete"],                  "",     ["--allow-delete", ...ALWAYS]],
  ["leading dashes",                ["--allow-delete", "--uid=7"],     "",     ["--allow-delete", "--uid=7", ...ALWAYS]],
  ["spaces around",                 ["  --uid   7 "],                  "",     ["--uid=7", ...ALWAYS]],
  ["a value with = and spaces",     ["prefix=a=b c/"],                 "",     ["--prefix=a=b c/", ...ALWAYS]],
  ["a short option",                ["-d"],                            "",     ["--debug", ...ALWAYS]],
  ["a word every object knows",     ["constructor"],                   "",     ["--constructor", ...ALWAYS]],
  ["the same option twice",         ["--uid 7", "uid=7"],              "",     ["--uid=7", ...ALWAYS]],
  ["a repeatable option",           ["bind=eth0", "bind eth1"],        "",     ["--bind=eth0", "--bind=eth1", ...ALWAYS]],
  ["allow-other instead of root",   ["allow-other"],                   "",     ["--allow-other", "--force-path-style"]],
  ["path style already asked",      ["force-path-style"],              "",     ALWAYS],
  ["empty options",                 ["", "  "],                        "",     ALWAYS],
  ["a workload's group",            [],                                "2000", ["--force-path-style", "--gid=2000", "--dir-mode=0770", "--file-mode=0660", "--allow-other"]],
  ["a group and own modes",         ["gid=5", "dir-mode=0700"],        "2000", ["--gid=5", "--dir-mode=0700", "--force-path-style", "--file-mode=0660", "--allow-other"]],
  ["a group and allow-root",        ["allow-root", "gid=5", "dir-mode=0700", "file-mode=0600"], "2000", ["--allow-root", "--gid=5", "--dir-mode=0700", "--file-mode=0600", "--force-path-style"]],
];
for (const [name, options, fsGroup, args] of cases) {
  test(`mount options: ${name}`, () => {
    assert.deepEqual(planMount(options, fsGroup).args, args);
  });
}

/** What the drivers that this one follows do with each option; ours is in the last column. */
// prettier-ignore
const rows: [option: string, args: string[], warned: RegExp | undefined][] = [
  ["profile=x",              ALWAYS, /profile is left out/],
  ["endpoint-url=http://s3", ALWAYS, /endpoint-url is left out: the endpoint is the driver's setting/],
  ["cache-xz=bucket",        ALWAYS, /cache-xz is left out/],
  ["incremental-upload",     ALWAYS, /incremental-upload is left out/],
  ["storage-class=COLD",     ALWAYS, /storage-class is left out/],
  ["-o ro",                  ALWAYS, /-o is left out: write its options as mountOptions of their own/],
  ["-o=ro,allow_other",      ALWAYS, /-o is left out/],
  ["foreground",             ALWAYS, /foreground is left out/],
  ["-f",                     ALWAYS, /foreground is left out/],
  ["--help",                 ALWAYS, /help is left out/],
  ["-h",                     ALWAYS, /help is left out/],
  ["--version",              ALWAYS, /version is left out/],
  ["-v",                     ALWAYS, /version is left out/],
  ["cache=/tmp/cache",       ["--cache=/cache", ...ALWAYS], undefined], // the pod's own volume
  ["max-cache-size=10",      ALWAYS, /max-cache-size is left out/],
  ["user-agent-prefix=me",   ALWAYS, /user-agent-prefix is left out: the driver sets its own/],
  ["log-directory=/tmp",     ALWAYS, /log-directory is left out: .*kubectl logs/],
  ["-l /tmp",                ALWAYS, /log-directory is left out/],
  ["force-path-style",       ALWAYS, undefined],
  ["allow-root",             ["--allow-root", "--force-path-style"], undefined],
  ["allow-other",            ["--allow-other", "--force-path-style"], undefined],
  ["read-only",              ["--read-only", ...ALWAYS], undefined],
  ["no-log",                 ["--no-log", ...ALWAYS], undefined],
  ["bind=eth0",              ["--bind=eth0", ...ALWAYS], undefined], // the engine has its own words for it
  ["no-such-option=1",       ["--no-such-option=1", ...ALWAYS], undefined], // likewise
];
for (const [option, args, warned] of rows) {
  test(`mount options: ${option}: ${warned === undefined ? "passes" : "is left out"}`, () => {
    const plan = planMount([option], "");
    assert.deepEqual(plan.args, args);
    assert.equal(plan.warnings.length, warned === undefined ? 0 : 1);
    if (warned !== undefined) assert.match(plan.warnings[0] ?? "", warned);
  });
}

const cached = (options: string[], sizeLimit?: string) =>
  planMount(options, "", undefined, { kind: "emptyDir", ...(sizeLimit && { sizeLimit }) }).args;

test("the cache is the pod's volume, 95 % of it or what the volume says", () => {
  assert.deepEqual(cached([]), ["--cache=/cache", ...ALWAYS]);
  assert.deepEqual(cached([], "1Gi"), ["--cache=/cache", "--max-cache-size=972", ...ALWAYS]);
  const own = ["--max-cache-size=100", "--cache=/cache", ...ALWAYS];
  assert.deepEqual(cached(["max-cache-size 100"], "1Gi"), own);
  const ephemeral = { kind: "ephemeral", storageClassName: "fast", size: "100Mi" } as const;
  const { args } = planMount([], "", undefined, ephemeral);
  assert.deepEqual(args, ["--cache=/cache", "--max-cache-size=95", ...ALWAYS]);
  const byOption = ["--cache=/cache", "--max-cache-size=10", ...ALWAYS];
  assert.deepEqual(planMount(["cache /tmp", "max-cache-size=10"], "").args, byOption);
});

test("a cache of nearly its volume's size is reduced: the volume holds more than objects", () => {
  const volume = { kind: "emptyDir", sizeLimit: "1Gi" } as const;
  const { args, warnings } = planMount(["max-cache-size 1024"], "", undefined, volume);
  assert(args.includes("--max-cache-size=972"));
  assert(cached(["max-cache-size=big"], "1Gi").includes("--max-cache-size=big"));
  assert.match(warnings.join(), /max-cache-size=1024 is reduced to 972: .* has 1024 MiB/);
});

test("a cache that is asked for twice, or larger than its volume, is refused", () => {
  assert.throws(() => cached(["cache=/x"]), { kind: "invalid", message: /give one of them/ });
  const message = /max-cache-size=1025.*the cache volume has 1024 MiB/;
  assert.throws(() => cached(["max-cache-size=1025"], "1Gi"), { kind: "invalid", message });
});

const ALLOWED = { volumeEndpoints: true };

test("an endpoint of its own is the volume's where the administrator says so", () => {
  for (const endpoint of ["http://s3:8000", "https://s3.example.com", "http://[::1]:9000/"]) {
    const plan = planMount([`endpoint-url ${endpoint}`], "", ALLOWED);
    assert.deepEqual(plan.args, [`--endpoint-url=${endpoint}`, ...ALWAYS]);
    assert.deepEqual(plan.warnings, []);
  }
  const still = planMount(["profile=x", "cache-xz=b"], "", ALLOWED);
  assert.deepEqual([still.args, still.warnings.length], [ALWAYS, 2], "and nothing else is");
});

const notEndpoints = ["", "s3:8000", "ftp://s3", "http://", "http://a b", "http://id:key@s3"];
notEndpoints.push(
  "http://s3/path",
  "http://s3?x",
  "http://s3#x",
  "http://s3\\@other",
  "http://s3:x",
);
for (const endpoint of notEndpoints) {
  test(`mount options: endpoint-url=${endpoint} is refused where endpoints are allowed`, () => {
    const message = /"endpoint-url=.*" is not an option: give http:/;
    const options = [`endpoint-url=${endpoint}`];
    assert.throws(() => planMount(options, "", ALLOWED), { kind: "invalid", message });
  });
}

test("read-only is detected in every form", () => {
  for (const form of ["read-only", "--read-only", " --read-only "]) {
    const plan = planMount([form], "");
    assert(plan.readOnly && plan.args.includes("--read-only"));
  }
  assert.equal(planMount(["allow-delete"], "").readOnly, false);
});

test("aws-max-attempts becomes a variable of the engine's environment", () => {
  const plan = planMount(["aws-max-attempts 5"], "");
  assert.deepEqual([plan.env, plan.args], [{ AWS_MAX_ATTEMPTS: "5" }, ALWAYS]);
});

const wrong: [option: string[], message: RegExp][] = [
  [["Prefix=a"], /"Prefix=a" is not an option/],
  [["--"], /"--" is not an option/],
  [["-x"], /"-x" is not an option/],
  [["uid=1", "uid=2"], /uid is given twice: 1, 2/],
  [["read-only=false"], /read-only takes no value/],
  [["aws-max-attempts=0"], /whole number from 1/],
  [["aws-max-attempts"], /whole number from 1/],
  [["prefix=a\0b"], /NUL/],
  [["ca-bundle=/etc/ca.pem"], /^mountOptions: ca-bundle: .*authorities are the driver's setting/],
  [["-oro"], /"-oro" is not an option/],
  [["allow-delete,uid=7"], /"allow-delete,uid=7" is not an option/],
  [["read-only", "read-only=true"], /read-only takes no value/],
  [["allow-delete", "allow-delete=yes"], /allow-delete is given twice: \(none\), yes/],
];
for (const [options, message] of wrong) {
  test(`mount options: ${JSON.stringify(options)} is refused`, () => {
    assert.throws(() => planMount(options, ""), { kind: "invalid", message });
  });
}

test("whatever is written, the outcome is a Failure or words that begin with --", () => {
  const option = fc.oneof(fc.string(), fc.stringMatching(/^-{0,2}[a-z-]{1,12}[= ]?.{0,12}$/));
  fc.assert(
    fc.property(fc.array(option), fc.constantFrom("", "1000"), (options, fsGroup) => {
      let plan;
      try {
        plan = planMount(options, fsGroup);
      } catch (error) {
        assert(error instanceof Failure);
        return;
      }
      assert(plan.args.every((arg) => /^--[a-z]/.test(arg)));
      assert(!plan.args.some((arg) => /^--(endpoint-url|profile|cache|foreground)(=|$)/.test(arg)));
      assert(plan.args.includes("--force-path-style"));
      assert(plan.args.includes("--allow-other") || plan.args.includes("--allow-root"));
    }),
  );
});

test("planning the words of a plan again changes nothing", () => {
  const option = fc.constantFrom("uid=7", "prefix a/", "allow-other", "read-only", "allow-delete");
  fc.assert(
    fc.property(fc.array(option), fc.constantFrom("", "1000"), (options, fsGroup) => {
      const { args } = planMount(options, fsGroup);
      assert.deepEqual(planMount(args, fsGroup).args, args);
    }),
  );
});

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

const stripped = ["profile=x", "--endpoint-url http://evil", "cache-xz b", "incremental-upload"];
stripped.push("storage-class=GLACIER", "-o allow_other", "foreground", "-f", "--help", "-v");
stripped.push("cache /tmp/cache", "max-cache-size 10", "user-agent-prefix me");
for (const option of stripped) {
  test(`mount options: ${option} is left out, and said so`, () => {
    const plan = planMount([option], "");
    assert.deepEqual(plan.args, ALWAYS);
    assert.equal(plan.warnings.length, 1);
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

import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import type { AuthenticationSource } from "../volume/volume-context.ts";
import { credentialsFor, secretWarnings } from "./driver-credentials.ts";

type Values = Readonly<Record<string, string>>;

const ENV = { AWS_ACCESS_KEY_ID: "driver-id", AWS_SECRET_ACCESS_KEY: "driver-key" };
const SECRET = { access_key_id: "volume-id", secret_access_key: "volume-key" };

// prettier-ignore
const good: [name: string, source: AuthenticationSource, secrets: Values, env: Values, want: Values][] = [
  ["the driver's",              "driver", {}, ENV, { accessKeyId: "driver-id", secretAccessKey: "driver-key" }],
  ["the driver's, with a Secret there", "driver", SECRET, ENV, { accessKeyId: "driver-id", secretAccessKey: "driver-key" }],
  ["the volume's",              "secret", SECRET, ENV, { accessKeyId: "volume-id", secretAccessKey: "volume-key" }],
  ["with a session token",      "secret", { ...SECRET, session_token: "t" }, ENV, { accessKeyId: "volume-id", secretAccessKey: "volume-key", sessionToken: "t" }],
  ["the driver's with a token", "driver", {}, { ...ENV, AWS_SESSION_TOKEN: "t" }, { accessKeyId: "driver-id", secretAccessKey: "driver-key", sessionToken: "t" }],
  ["the volume's without the driver's token", "secret", SECRET, { ...ENV, AWS_SESSION_TOKEN: "t" }, { accessKeyId: "volume-id", secretAccessKey: "volume-key" }],
  ["a blank token is none",     "secret", { ...SECRET, session_token: " \n" }, ENV, { accessKeyId: "volume-id", secretAccessKey: "volume-key" }],
  ["of another kind of server", "secret", { access_key_id: "tenant:user", secret_access_key: "p'a$s/+=" }, ENV, { accessKeyId: "tenant:user", secretAccessKey: "p'a$s/+=" }],
  ["as long as can be",         "secret", { access_key_id: "i".repeat(128), secret_access_key: "k".repeat(128) }, ENV, { accessKeyId: "i".repeat(128), secretAccessKey: "k".repeat(128) }],
  ["an unknown key beside them", "secret", { ...SECRET, region: "r" }, ENV, { accessKeyId: "volume-id", secretAccessKey: "volume-key" }],
  ["the newline of a file",     "secret", { access_key_id: "volume-id\n", secret_access_key: " volume-key\n" }, {}, { accessKeyId: "volume-id", secretAccessKey: "volume-key" }],
];
for (const [name, source, secrets, env, want] of good) {
  test(`keys: ${name}`, () => assert.deepEqual(credentialsFor(source, secrets, { env }), want));
}

// prettier-ignore
const missing: [name: string, source: AuthenticationSource, secrets: Values, env: Values, kind: string, says: RegExp][] = [
  ["an empty Secret",      "secret", {}, ENV, "invalid", /^missing or invalid keys in Kubernetes Secret: access_key_id is missing; secret_access_key is missing \(/],
  ["half a Secret",        "secret", { access_key_id: "volume-id" }, ENV, "invalid", /: secret_access_key is missing \(/],
  ["a blank key",          "secret", { ...SECRET, access_key_id: " \n" }, ENV, "invalid", /: access_key_id is missing \(/],
  ["a token without keys", "secret", { session_token: "volume-token" }, ENV, "invalid", /: access_key_id is missing; secret_access_key is missing \(/],
  ["keys by other names",  "secret", { AWS_ACCESS_KEY_ID: "x", AWS_SECRET_ACCESS_KEY: "y" }, ENV, "invalid", /access_key_id is missing; secret_access_key is missing/],
  ["an id of two lines",   "secret", { ...SECRET, access_key_id: "volume\nid" }, ENV, "invalid", /: access_key_id is invalid: give 1 to 128 printable ASCII/],
  ["an id with a slash",   "secret", { ...SECRET, access_key_id: "volume/id" }, ENV, "invalid", /: access_key_id is invalid: .*no blank, comma or slash/],
  ["an id with a comma",   "secret", { ...SECRET, access_key_id: "volume,id" }, ENV, "invalid", /: access_key_id is invalid/],
  ["an id too long",       "secret", { ...SECRET, access_key_id: "i".repeat(129) }, ENV, "invalid", /: access_key_id is invalid/],
  ["a key with a blank",   "secret", { ...SECRET, secret_access_key: "volume key" }, ENV, "invalid", /: secret_access_key is invalid: .*no blank/],
  ["a key too long",       "secret", { ...SECRET, secret_access_key: "k".repeat(129) }, ENV, "invalid", /: secret_access_key is invalid/],
  ["a key with an umlaut", "secret", { ...SECRET, secret_access_key: "schlüssel" }, ENV, "invalid", /: secret_access_key is invalid/],
  ["a token of two lines", "secret", { ...SECRET, session_token: "to\nken" }, ENV, "invalid", /: session_token is invalid: give at most 8192/],
  ["a driver without",     "driver", SECRET, {}, "refused", /the driver has no credentials: AWS_ACCESS_KEY_ID is missing; AWS_SECRET_ACCESS_KEY is missing;/],
  ["a driver's bad id",    "driver", SECRET, { ...ENV, AWS_ACCESS_KEY_ID: "driver id" }, "refused", /AWS_ACCESS_KEY_ID is invalid: give/],
  ["a driver with half",   "driver", SECRET, { AWS_ACCESS_KEY_ID: "driver-id" }, "refused", /the driver has no credentials/],
  ["a driver with blanks", "driver", SECRET, { AWS_ACCESS_KEY_ID: " ", AWS_SECRET_ACCESS_KEY: "\n" }, "refused", /the driver has no credentials/],
];
for (const [name, source, secrets, env, kind, says] of missing) {
  test(`${name} is a failure, never another's keys`, () => {
    assert.throws(
      () => credentialsFor(source, secrets, { env }),
      (error) => {
        assert(error instanceof Failure);
        assert.equal(error.kind, kind);
        assert.match(error.message, says);
        const values = Object.values({ ...secrets, ...env }).filter((value) => value.length > 1);
        for (const value of values) assert(!error.message.includes(value), "a key in the message");
        return true;
      },
    );
  });
}

// prettier-ignore
const unused: [name: string, source: AuthenticationSource, secrets: Values, want: RegExp[]][] = [
  ["nothing to say",             "secret", { ...SECRET, session_token: "t" }, []],
  ["no Secret, none wanted",     "driver", {}, []],
  ["a Secret that nobody asked for", "driver", SECRET, [/^nodePublishSecretRef is not used: .*authenticationSource: driver$/]],
  ["a key that nobody knows",    "secret", { ...SECRET, region: "r" }, [/^unexpected key "region" in Kubernetes Secret is ignored: used are access_key_id, secret_access_key, session_token$/]],
  ["two of them, in order",      "secret", { ...SECRET, key_id: "volume-id", access_key: "x" }, [/"access_key"/, /"key_id"/]],
  ["a name that is none",        "secret", { ...SECRET, "a\nb": "x" }, [/unexpected key "a\\nb"/]],
];
for (const [name, source, secrets, want] of unused) {
  test(`what is not used is told: ${name}`, () => {
    const warnings = secretWarnings(source, secrets);
    assert.equal(warnings.length, want.length, warnings.join("; "));
    for (const [index, says] of want.entries()) assert.match(warnings[index] ?? "", says);
    assert(!warnings.join("").includes("volume-"), "a key in the message");
  });
}

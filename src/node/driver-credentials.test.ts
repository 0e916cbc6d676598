import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import type { AuthenticationSource } from "../volume/volume-context.ts";
import { credentialsFor } from "./driver-credentials.ts";

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
  ["the newline of a file",     "secret", { access_key_id: "volume-id\n", secret_access_key: " volume-key\n" }, {}, { accessKeyId: "volume-id", secretAccessKey: "volume-key" }],
];
for (const [name, source, secrets, env, want] of good) {
  test(`keys: ${name}`, () => assert.deepEqual(credentialsFor(source, secrets, env), want));
}

// prettier-ignore
const missing: [name: string, source: AuthenticationSource, secrets: Values, env: Values, kind: string, says: RegExp][] = [
  ["an empty Secret",      "secret", {}, ENV, "invalid", /: access_key_id, secret_access_key \(/],
  ["half a Secret",        "secret", { access_key_id: "volume-id" }, ENV, "invalid", /: secret_access_key \(/],
  ["a blank key",          "secret", { ...SECRET, access_key_id: " \n" }, ENV, "invalid", /: access_key_id \(/],
  ["keys by other names",  "secret", { AWS_ACCESS_KEY_ID: "x", AWS_SECRET_ACCESS_KEY: "y" }, ENV, "invalid", /access_key_id, secret_access_key/],
  ["a driver without",     "driver", SECRET, {}, "refused", /the driver has no credentials/],
  ["a driver with half",   "driver", SECRET, { AWS_ACCESS_KEY_ID: "driver-id" }, "refused", /the driver has no credentials/],
  ["a driver with blanks", "driver", SECRET, { AWS_ACCESS_KEY_ID: " ", AWS_SECRET_ACCESS_KEY: "\n" }, "refused", /the driver has no credentials/],
];
for (const [name, source, secrets, env, kind, says] of missing) {
  test(`${name} is a failure, never another's keys`, () => {
    assert.throws(
      () => credentialsFor(source, secrets, env),
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

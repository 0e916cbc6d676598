import assert from "node:assert/strict";
import { test } from "node:test";
import { allowedEnv, envWarnings, parseMountpointEnv } from "./mountpoint-env.ts";
import { parseVolumeContext } from "./volume-context.ts";

const STRICT = { volumeEndpoints: false };
const ALLOWED = { volumeEndpoints: true };
const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

test("proxies follow the policy of endpoints, and a warning names what would allow them", () => {
  const attributes = Object.fromEntries(PROXIES.map((name) => [`mountpointEnv.${name}`, "p"]));
  const env = parseMountpointEnv({ ...attributes, bucketName: "data" });
  assert.deepEqual(Object.keys(env), PROXIES);
  assert.deepEqual(allowedEnv(env, STRICT), {});
  assert.deepEqual(allowedEnv(env, ALLOWED), env);
  assert.deepEqual(envWarnings(env, ALLOWED), []);
  const warnings = envWarnings(env, STRICT);
  assert.equal(warnings.length, 3);
  for (const [index, warning] of warnings.entries()) {
    assert(warning.startsWith(`volumeAttributes.mountpointEnv.${PROXIES[index]} is left out: `));
    assert.match(warning, /node\.allowVolumeEndpoints/);
  }
});

// prettier-ignore
const refused: [name: string, instead: RegExp][] = [
  ["NODE_OPTIONS",         /one of HTTP_PROXY, HTTPS_PROXY, NO_PROXY/],
  ["NODE_EXTRA_CA_CERTS",  /tls\.caCertConfigMap/],
  ["SSL_CERT_FILE",        /tls\.caCertConfigMap/],
  ["SSL_CERT_DIR",         /tls\.caCertConfigMap/],
  ["AWS_CA_BUNDLE",        /tls\.caCertConfigMap/],
  ["AWS_ENDPOINT_URL",     /endpoint-url/],
  ["AWS_ENDPOINT_URL_S3",  /endpoint-url/],
  ["LD_PRELOAD",           /one of/],
  ["LD_LIBRARY_PATH",      /one of/],
  ["ALL_PROXY",            /one of/],
  ["https_proxy",          /one of/],
  ["PATH",                 /one of/],
  ["",                     /one of/],
];
for (const [name, instead] of refused) {
  test(`mountpointEnv.${name} is refused under every policy, on the node too`, () => {
    const attributes = { bucketName: "data", [`mountpointEnv.${name}`]: "x" };
    const message = new RegExp(`mountpointEnv\\.${name}: .* not allowed: use .*${instead.source}`);
    assert.throws(() => parseMountpointEnv(attributes), { kind: "invalid", message });
    assert.throws(() => parseVolumeContext(attributes), { kind: "invalid", message });
  });
}

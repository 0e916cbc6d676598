import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { Failure } from "../base/failure.ts";
import { proxyFor, proxyName } from "./http-proxy.ts";

const S3 = { host: "bucket.s3.example.com", port: 443, tls: true };
const chosen = (env: Record<string, string>, endpoint = S3) => {
  const proxy = proxyFor(endpoint, env);
  return proxy === undefined ? "direct" : proxyName(proxy);
};

// prettier-ignore
const choices: [env: Record<string, string>, https: string, http: string][] = [
  [{},                                             "direct",                         "direct"],
  [{ HTTPS_PROXY: "http://p:3128" },               "the proxy http://p:3128",        "direct"],
  [{ https_proxy: "http://a:1", HTTPS_PROXY: "http://b:2" }, "the proxy http://a:1", "direct"],
  [{ HTTP_PROXY: "http://p:3128/" },               "direct",                         "the proxy http://p:3128"],
  [{ ALL_PROXY: "p:8080" },                        "the proxy http://p:8080",        "the proxy http://p:8080"],
  [{ ALL_PROXY: "p:1", http_proxy: "q:2" },        "the proxy http://p:1",           "the proxy http://q:2"],
  [{ ALL_PROXY: "https://p" },                     "the proxy https://p:443",        "the proxy https://p:443"],
  [{ ALL_PROXY: "http://[::1]:9" },                "the proxy http://[::1]:9",       "the proxy http://[::1]:9"],
  [{ HTTPS_PROXY: "", HTTP_PROXY: " " },           "direct",                         "direct"],
];
for (const [env, https, http] of choices) {
  test(`${JSON.stringify(env)}: https by ${https}, http by ${http}`, () => {
    assert.equal(chosen(env), https);
    assert.equal(chosen(env, { ...S3, tls: false }), http);
  });
}

// prettier-ignore
const exceptions: [noProxy: string, host: string, port: number, direct: boolean][] = [
  ["*",                       "s3.example.com", 443, true],
  ["example.com",             "s3.example.com", 443, true],
  ["example.com",             "example.com",    443, true],
  ["example.com",             "badexample.com", 443, false],
  [".example.com",            "s3.Example.COM", 443, true],
  ["*.example.com",           "s3.example.com", 443, true],
  ["other, s3.example.com",   "s3.example.com", 443, true],
  ["other s3.example.com.",   "s3.example.com", 443, true],
  ["example.com:443",         "s3.example.com", 443, true],
  ["example.com:9000",        "s3.example.com", 443, false],
  ["",                        "s3.example.com", 443, false],
  [".",                       "s3.example.com", 443, false],
  ["10.1.2.3",                "10.1.2.3",       80,  true],
  ["10.1.2.3:81",             "10.1.2.3",       80,  false],
  ["10.0.0.0/8",              "10.1.2.3",       80,  true],
  ["10.0.0.0/8",              "11.1.2.3",       80,  false],
  ["10.0.0.0/99,10.0.0.0/x",  "10.1.2.3",       80,  false],
  ["2.3",                     "10.1.2.3",       80,  false],
  ["fd00::/8",                "fd00::5",        80,  true],
  ["[fd00::5]:80",            "fd00::5",        80,  true],
  ["fd00::5",                 "fd00::5",        80,  true],
  ["fd00::6",                 "fd00::5",        80,  false],
  ["10.0.0.0/8",              "fd00::5",        80,  false],
];
for (const [noProxy, host, port, direct] of exceptions) {
  test(`NO_PROXY=${noProxy}: ${host}:${port} ${direct ? "directly" : "by the proxy"}`, () => {
    const env = { ALL_PROXY: "http://p:1", NO_PROXY: noProxy };
    assert.equal(proxyFor({ host, port, tls: false }, env) === undefined, direct);
  });
}

test("credentials are decoded and never shown", () => {
  const proxy = proxyFor(S3, { HTTPS_PROXY: "http://us%40er:pa%3Ass%20wörd@p:1" });
  assert(proxy !== undefined);
  const header = `Basic ${Buffer.from("us@er:pa:ss wörd").toString("base64")}`;
  assert.equal(proxy.authorization?.reveal(), header);
  for (const print of [inspect(proxy), JSON.stringify(proxy), proxyName(proxy)]) {
    assert.doesNotMatch(print, /us@er|ss wörd|Basic/);
  }
});

for (const text of [
  "socks5://u:secret@p:1",
  "http://u:secret@",
  "http://u:%secret@p:1",
  "http://u:secret@p:99999999",
  "u:secret@:x\n",
]) {
  test(`${JSON.stringify(text)} is refused by its variable, without its secret`, () => {
    assert.throws(
      () => proxyFor(S3, { https_proxy: text }),
      (error) =>
        error instanceof Failure &&
        error.kind === "invalid" &&
        /^https_proxy .*: an http:\/\/ or https:\/\/ URL is expected$/.test(error.message) &&
        !error.message.includes("secret"),
    );
  });
}

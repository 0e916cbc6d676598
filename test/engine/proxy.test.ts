import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { engineEnvironment, EngineProcess, mountBucket } from "./engine-process.ts";
import { ForwardProxy } from "./forward-proxy.ts";
import { readSlowly } from "./slow-reader.ts";
import { TestBucket } from "./test-bucket.ts";
import { TlsFront } from "./tls-front.ts";

const BYTES = randomBytes(20_000_000);
const LONG = randomBytes(64 << 20);
const LISTEN = { host: "localhost", port: 0 };
const UNREACHABLE = "http://127.0.0.1:9";

describe("a proxy on the way to S3", () => {
  let bucket: TestBucket;
  let front: TlsFront;
  before(async () => {
    bucket = await TestBucket.start();
    front = await TlsFront.start(bucket.access.endpoint, "localhost", LISTEN);
    await bucket.put("file", BYTES);
    await bucket.put("long", LONG);
  });
  after(() => front[Symbol.asyncDispose]());
  after(() => bucket[Symbol.asyncDispose]());

  const secure = () => ["--endpoint-url", front.url, "--ca-bundle", front.ca];
  const readsAndWrites = async (env: NodeJS.ProcessEnv, args: string[]) => {
    await using mount = await mountBucket(bucket, [...args, "--allow-overwrite"], env);
    assert((await fs.readFile(join(mount.dir, "file"))).equals(BYTES));
    await fs.writeFile(join(mount.dir, "copy"), BYTES);
    assert((await bucket.get("copy")).equals(BYTES));
    assert((await readSlowly(join(mount.dir, "long"))).equals(LONG));
  };

  test("http: it is handed every request", async () => {
    await using proxy = await ForwardProxy.start("us@er:pa ss");
    await readsAndWrites({ HTTP_PROXY: `http://us%40er:pa%20ss@${proxy.authority}` }, []);
    assert(proxy.asked.length > 5);
    const { endpoint } = bucket.access;
    for (const asked of proxy.asked) assert.match(asked, new RegExp(`^[A-Z]+ ${endpoint}/`));
  });

  test("https: it gives tunnels, which are kept", async () => {
    await using proxy = await ForwardProxy.start("user:password");
    await readsAndWrites({ https_proxy: `http://user:password@${proxy.authority}` }, secure());
    const { host } = new URL(front.url);
    for (const asked of proxy.asked) assert.equal(asked, `CONNECT ${host}`);
    assert(proxy.asked.length > 0 && proxy.asked.length < 64);
  });

  test("https: an endpoint without a name shows a certificate for its address", async () => {
    await using proxy = await ForwardProxy.start();
    const listen = { host: "127.0.0.1", port: 0 };
    await using unnamed = await TlsFront.start(bucket.access.endpoint, "127.0.0.1", listen);
    const args = ["--endpoint-url", unnamed.url, "--ca-bundle", unnamed.ca];
    await readsAndWrites({ HTTPS_PROXY: `http://${proxy.authority}` }, args);
    const [asked] = proxy.asked;
    assert.equal(asked, `CONNECT ${new URL(unnamed.url).host}`);
  });

  test("a proxy that is spoken to by TLS itself", async () => {
    await using proxy = await ForwardProxy.start();
    await using secured = await TlsFront.start(`http://${proxy.authority}`, "localhost", LISTEN);
    const bundle = join(dirname(secured.ca), "both");
    await fs.writeFile(
      bundle,
      (await fs.readFile(front.ca, "utf8")) + (await fs.readFile(secured.ca, "utf8")),
    );
    const env = { ALL_PROXY: secured.url };
    await readsAndWrites(env, ["--ca-bundle", bundle]);
    assert(proxy.asked.some((asked) => asked.startsWith("GET http://")));
    await readsAndWrites(env, ["--endpoint-url", front.url, "--ca-bundle", bundle]);
    assert(proxy.asked.some((asked) => asked.startsWith("CONNECT ")));
  });

  test("an endpoint that is exempt is reached directly", async () => {
    const { hostname } = new URL(bucket.access.endpoint);
    await readsAndWrites({ HTTP_PROXY: UNREACHABLE, NO_PROXY: `x,${hostname}/16` }, []);
    await readsAndWrites({ HTTPS_PROXY: UNREACHABLE, no_proxy: "localhost" }, secure());
    await readsAndWrites({ HTTPS_PROXY: UNREACHABLE }, []);
  });

  async function failsWith(env: NodeJS.ProcessEnv, args: string[], status: number, says: RegExp) {
    const words = [bucket.name, tmpdir(), ...args];
    await using engine = new EngineProcess(words, { ...engineEnvironment(bucket), ...env });
    const ended = await engine.ended;
    assert.match(ended.stderr, says);
    assert.equal(ended.status, status);
    assert.equal(ended.stderr.trimEnd().split("\n").length, 1);
    assert.doesNotMatch(ended.stderr, /hunter2/);
  }

  test("one that refuses us, is away or is none is named, without its password", async () => {
    await using proxy = await ForwardProxy.start("user:other");
    const url = `http://user:hunter2@${proxy.authority}`;
    const refused = /the proxy http:\/\/127\.0\.0\.1:\d+ does not accept the user and password/;
    await failsWith({ HTTP_PROXY: url }, [], 4, refused);
    await failsWith({ HTTPS_PROXY: url }, secure(), 4, refused);
    const wants = /the proxy http:\/\/127\.0\.0\.1:\d+ wants a user and password: HTTP 407/;
    await failsWith({ HTTPS_PROXY: `http://${proxy.authority}` }, secure(), 4, wants);
    const away = /can't reach the proxy http:\/\/127\.0\.0\.1:9: .*ECONNREFUSED/;
    await failsWith({ HTTP_PROXY: "http://u:hunter2@127.0.0.1:9" }, [], 5, away);
    await failsWith({ HTTPS_PROXY: "http://u:hunter2@127.0.0.1:9" }, secure(), 5, away);
    const wrong = /HTTP_PROXY …@p: an http:\/\/ or https:\/\/ URL is expected/;
    await failsWith({ HTTP_PROXY: "socks5://u:hunter2@p" }, [], 2, wrong);
  });

  test("an origin that the tunnel does not lead to safely is not spoken to", async () => {
    await using proxy = await ForwardProxy.start();
    const env = { HTTPS_PROXY: `http://${proxy.authority}` };
    await failsWith(
      env,
      ["--endpoint-url", front.url],
      5,
      /the endpoint localhost:\d+: .*certificate/,
    );
  });
});

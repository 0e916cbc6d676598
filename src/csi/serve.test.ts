import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Code, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { createLog } from "../base/pino-log.ts";
import { Identity, Node } from "./gen/csi_pb.ts";
import { serve } from "./serve.ts";

const dir = mkdtempSync(join(tmpdir(), "s3csi-serve-"));
after(() => rmSync(dir, { recursive: true }));
const log = createLog("error", {});
log.level = "silent";

const ready = () => ({ ready: true });

function clientOf(path: string) {
  const nodeOptions = { createConnection: () => connect(path) };
  return createClient(Identity, createGrpcTransport({ baseUrl: "http://localhost", nodeOptions }));
}

test("serves on a socket that is root's alone, in place of an earlier one", async () => {
  const path = join(dir, "deep/er/csi.sock");
  await (await serve(`unix://${path}`, () => {}, log))[Symbol.asyncDispose]();
  writeFileSync(path, "left behind");
  await using _server = await serve(
    path,
    (router) => router.service(Identity, { probe: ready }),
    log,
  );
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.equal((await clientOf(path).probe({})).ready, true);
});

test("a service that is not offered is Unimplemented", async () => {
  const path = join(dir, "small.sock");
  await using _server = await serve(path, () => {}, log);
  const nodeOptions = { createConnection: () => connect(path) };
  const transport = createGrpcTransport({ baseUrl: "http://localhost", nodeOptions });
  await assert.rejects(createClient(Node, transport).nodeGetInfo({}), { code: Code.Unimplemented });
});

test("a call that never ends does not keep the server from ending", async () => {
  const path = join(dir, "slow.sock");
  const begun = Promise.withResolvers<void>();
  const probe = () => {
    begun.resolve();
    return new Promise<never>(() => {});
  };
  const server = await serve(path, (router) => router.service(Identity, { probe }), log);
  const cut = assert.rejects(clientOf(path).probe({}));
  await begun.promise;
  const startedMs = performance.now();
  await server[Symbol.asyncDispose]();
  assert(performance.now() - startedMs < 5_000);
  await cut;
});

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Secret } from "../base/secret.ts";
import { fixedCredentials } from "./credentials.ts";
import type { RetryPolicy } from "./retry.ts";
import { locate } from "./s3-location.ts";
import { S3Store } from "./s3-store.ts";
import { S3Transport } from "./s3-transport.ts";
import type { TransportOptions } from "./s3-transport.ts";
import { CHECKSUM_KINDS } from "./upload-checksum.ts";

export type Answer = (response: ServerResponse, request: IncomingMessage) => void;

export const signal = AbortSignal.timeout(20_000);

export const fails = (status: number, code = "Oops"): Answer => {
  return (response) => {
    response.writeHead(status).end(`<Error><Code>${code}</Code><Message>m</Message></Error>`);
  };
};

/** The headers of an answer with `sizeBytes` from `fromBytes` of an object with the ETag "e". */
export function partHeaders(fromBytes: number, sizeBytes: number, objectBytes: number) {
  const lastBytes = fromBytes + sizeBytes - 1;
  return { etag: '"e"', "content-range": `bytes ${fromBytes}-${lastBytes}/${objectBytes}` };
}

/** An endpoint that answers by a script, one line per request, and remembers what it was asked. */
export async function scripted(
  script: Answer[],
  more: Partial<TransportOptions> = {},
  policy: RetryPolicy = { attemptsMax: 4, windowMs: 10_000 },
) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    request.resume().once("end", () => {
      asked.push(`${request.method} ${request.url} ${request.headers["range"] ?? ""}`.trimEnd());
      const answer = script.shift() ?? fails(500, "EndOfScript");
      answer(response, request);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  assert(address !== null && typeof address === "object");
  const endpointUrl = `http://127.0.0.1:${address.port}`;
  const transport = new S3Transport({
    location: locate({ bucket: "bkt", region: "r", endpointUrl, forcePathStyle: true }),
    credentials: fixedCredentials({
      accessKeyId: "k",
      secretAccessKey: new Secret("s"),
      sessionToken: undefined,
    }),
    ca: undefined,
    userAgent: "test",
    connectionsMax: 4,
    connectTimeoutMs: 1000,
    silenceLimitMs: 500,
    signsPayload: false,
    extraHeaders: {},
    ...more,
  });
  const uploads = { objectHeaders: {}, checksum: CHECKSUM_KINDS.crc32, log: more.log };
  const store = new S3Store(transport, policy, uploads);
  const close = () => {
    store.close();
    server.closeAllConnections();
    server.close();
  };
  return { store, transport, asked, server, endpointUrl, [Symbol.dispose]: close };
}

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { test } from "node:test";
import { CountingProxy } from "./counting-proxy.ts";

test("the proxy passes bytes on and counts those of the server alone", async () => {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end("x".repeat(100_000)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  {
    await using proxy = await CountingProxy.start(`http://127.0.0.1:${port}`);
    const client = connect(Number(new URL(proxy.endpoint).port), "127.0.0.1");
    client.write("a request");
    let received = 0;
    for await (const chunk of client) received += (chunk as Buffer).length;
    assert.equal(received, 100_000);
    assert.equal(proxy.receivedBytes, 100_000);
  }
  server.close();
  await once(server, "close");
});

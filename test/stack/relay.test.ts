import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import { test } from "node:test";
import { bodyOf, Relay } from "../../tools/stack/relay.ts";

const REFUSAL = "HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nnope";
/** More than the socket buffers hold: the relay is still sending when the answer arrives. */
const LARGE_BYTES = 64 << 20;

class PlainRelay extends Relay {
  static start(target: string): Promise<PlainRelay> {
    return new PlainRelay(target).listen();
  }

  protected async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, headers, body } = await this.forward(request, await bodyOf(request));
    response.writeHead(status, headers).end(body);
  }
}

test("a target that answers before the end of a body may reset the connection", async () => {
  const connections: Socket[] = [];
  const server = createServer((socket) => {
    connections.push(socket);
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.pause();
      socket.write(REFUSAL);
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  assert(typeof address === "object" && address !== null);
  await using relay = await PlainRelay.start(`http://127.0.0.1:${address.port}`);
  for (let round = 0; round < 3; round++) {
    const answer = await fetch(relay.url, { method: "PUT", body: Buffer.alloc(LARGE_BYTES) });
    assert.equal(answer.status, 400);
    assert.equal(await answer.text(), "nope");
    connections.pop()?.resetAndDestroy();
  }
  assert.deepEqual(connections, []);
  server.close();
  await once(server, "close");
});

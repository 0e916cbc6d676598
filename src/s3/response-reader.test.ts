import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { ResponseReader } from "./response-reader.ts";
import type { ResponseTarget } from "./response-reader.ts";

const BODY = "0123456789abcdef";
const byLength = `HTTP/1.1 206 Partial Content\r\nContent-Length: 16\r\nETag: "x"\r\n\r\n${BODY}`;
const byChunks = `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6;ext=1\r\n012345\r\nA\r\n6789abcdef\r\n0\r\nTrailer: t\r\n\r\n`;

const FRAMINGS = [
  ["length", byLength],
  ["chunks", byChunks],
] as const;

/** As the socket does it: into the buffer that the reader asks for, at most `step` bytes each. */
function feed(
  reader: ResponseReader,
  wire: string,
  step: () => number,
  afterEach: () => void = () => undefined,
): void {
  let rest = Buffer.from(wire, "latin1");
  while (rest.length > 0) {
    const place = reader.directTarget() ?? Buffer.alloc(300);
    const count = Math.min(rest.length, place.length, step());
    rest.copy(place, 0, 0, count);
    reader.take(place.subarray(0, count));
    rest = rest.subarray(count);
    afterEach();
  }
}

for (const [name, wire] of FRAMINGS) {
  test(`a body by ${name} lands in its target, however the network cuts it`, () => {
    fc.assert(
      fc.property(fc.infiniteStream(fc.integer({ min: 1, max: 40 })), (steps) => {
        const filled: number[] = [];
        const target: ResponseTarget = {
          into: Buffer.alloc(16),
          onFilled: (count) => filled.push(count),
        };
        const reader = new ResponseReader("GET", target);
        feed(reader, wire, () => steps.next().value ?? 1);
        assert(reader.done);
        assert.equal(target.into.toString("latin1"), BODY);
        assert.equal(filled.at(-1), 16);
        assert.equal(reader.response().body.length, 0);
      }),
    );
  });
}

for (const [name, wire] of FRAMINGS) {
  test(`a body by ${name} is shared out to targets one after the other`, () => {
    const sizes = fc.infiniteStream(fc.integer({ min: 1, max: 12 }));
    const steps = fc.infiniteStream(fc.integer({ min: 1, max: 200 }));
    const property = fc.property(sizes, steps, (nextSize, nextStep) => {
      let body = "";
      let leftBytes = BODY.length;
      const nextTarget = (): ResponseTarget => {
        const into = Buffer.alloc(Math.min(leftBytes, nextSize.next().value ?? 1));
        leftBytes -= into.length;
        const onFilled = (count: number) => {
          if (count === into.length) body += into.toString("latin1");
        };
        return { into, onFilled, restBytes: leftBytes };
      };
      const reader = new ResponseReader("GET", nextTarget());
      const goOn = () => {
        while (reader.full) reader.goOn(nextTarget());
      };
      feed(reader, wire, () => nextStep.next().value ?? 1, goOn);
      assert(reader.done);
      assert.equal(body, BODY);
    });
    fc.assert(property);
  });
}

test("a rest that is longer than was asked for is a Failure", () => {
  const target = { into: Buffer.alloc(4), restBytes: 8, onFilled: () => undefined };
  for (const wire of [byLength, byChunks]) {
    const reader = new ResponseReader("GET", target);
    assert.throws(() => feed(reader, wire, () => 300), Failure);
  }
});

test("a socket never gets a buffer of 2 GiB, however large the target is", () => {
  const into = Buffer.allocUnsafeSlow(2 ** 31); // address space: nobody touches it
  const reader = new ResponseReader("GET", { into, onFilled: () => undefined });
  reader.take(Buffer.from(`HTTP/1.1 206 OK\r\ncontent-length: ${into.length}\r\n\r\n`));
  assert.equal(reader.directTarget()?.length, 64 << 20);
});

test("pieces and target may be neighbours in the same memory", () => {
  const shared = Buffer.alloc(512);
  const into = shared.subarray(300, 316);
  const reader = new ResponseReader("GET", { into, onFilled: () => undefined });
  const count = shared.write(byLength, "latin1");
  reader.take(shared.subarray(0, count));
  assert.equal(into.toString("latin1"), BODY);
});

test("an error's body is collected, not put where data was expected", () => {
  const into = Buffer.alloc(4);
  const reader = new ResponseReader("GET", { into, onFilled: () => undefined });
  feed(reader, "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n<no/>", () => 7);
  assert.equal(reader.response().body.toString(), "<no/>");
  assert.equal(into.readUInt32LE(0), 0);
});

function small(): ResponseReader {
  return new ResponseReader("GET", { into: Buffer.alloc(4), onFilled: () => undefined });
}

test("more than was asked for, and what is not HTTP, is a Failure", () => {
  assert.throws(
    () => small().take(Buffer.from("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")),
    Failure,
  );
  assert.throws(() => small().take(Buffer.from("SSH-2.0-x\r\n\r\n")), Failure);
  assert.throws(
    () => small().take(Buffer.from("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n")),
    Failure,
  );
});

test("HEAD has no body whatever its length says", () => {
  const reader = new ResponseReader("HEAD", undefined);
  feed(reader, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", () => 10);
  assert(reader.done);
});

test("a body that ends with its connection gives sockets no place of its own, and is read", () => {
  const into = Buffer.alloc(8);
  let filledBytes = 0;
  const onFilled = (bytes: number) => (filledBytes = bytes);
  const reader = new ResponseReader("GET", { into, onFilled });
  reader.take(Buffer.from("HTTP/1.1 206 OK\r\nconnection: close\r\n\r\nbyte"));
  assert.equal(reader.directTarget(), undefined, "a TLS socket spins on an empty one");
  reader.take(Buffer.from("s"));
  assert.deepEqual([reader.done, reader.endsWithConnection, filledBytes], [false, true, 5]);
  assert.equal(into.toString("latin1", 0, filledBytes), "bytes");
});

// prettier-ignore
const surplus: [what: string, method: string, head: string][] = [
  ["to HEAD",            "HEAD", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n"],
  ["without content",    "PUT",  "HTTP/1.1 204 No Content\r\n\r\n"],
  ["of length 0",        "PUT",  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"],
];
for (const [what, method, head] of surplus) {
  test(`bytes behind an answer ${what} are no answer to the next request`, () => {
    const [clean, dirty] = [head, `${head}junk`].map((wire) => {
      const reader = new ResponseReader(method, undefined);
      reader.take(Buffer.from(wire));
      assert(reader.done);
      return reader.hasSurplus;
    });
    assert.deepEqual([clean, dirty], [false, true]);
  });
}

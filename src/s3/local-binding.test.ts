import assert from "node:assert/strict";
import type { networkInterfaces } from "node:os";
import { test } from "node:test";
import { Failure } from "../base/failure.ts";
import { checkBinding, localBindingOf } from "./local-binding.ts";
import { AwayFailure } from "./retry.ts";
import { scripted, signal } from "./test-endpoint.ts";
import type { Answer } from "./test-endpoint.ts";

type Interfaces = ReturnType<typeof networkInterfaces>;
const common = { netmask: "", mac: "", internal: false, cidr: null };
const v4 = (address: string) => ({ ...common, address, family: "IPv4" as const });
const v6 = (address: string) => ({ ...common, address, family: "IPv6" as const, scopeid: 0 });
const INTERFACES: Interfaces = {
  eth0: [v4("10.0.0.1"), v6("fe80::1"), v6("fd00::1")],
  eth1: [v4("10.0.1.1")],
};

test("connections start from the given interfaces in turn, in the family of the host", () => {
  const binding = localBindingOf(["eth0", "eth1"], () => INTERFACES);
  const addresses = ["s3.example.com", "s3.example.com", "192.0.2.1"].map((host) => binding(host));
  assert.deepEqual(addresses, [
    { localAddress: "10.0.0.1", family: 4 },
    { localAddress: "10.0.1.1", family: 4 },
    { localAddress: "10.0.0.1", family: 4 },
  ]);
  assert.deepEqual(binding("2001:db8::1"), { localAddress: "fd00::1", family: 6 });
});

test("an address of this machine is as good as its interface", () => {
  const binding = localBindingOf(["fd00::1"], () => INTERFACES);
  assert.deepEqual(binding("s3.example.com"), { localAddress: "fd00::1", family: 6 });
});

test("each connection starts from the address that its interface has by then", () => {
  let interfaces = INTERFACES;
  const binding = localBindingOf(["eth1"], () => interfaces);
  assert.equal(binding("s3.example.com").localAddress, "10.0.1.1");
  interfaces = { eth1: [v4("10.0.1.2")] };
  assert.equal(binding("s3.example.com").localAddress, "10.0.1.2");
});

test("while interfaces are gone, connections start from the others; without any it is an outage", () => {
  let interfaces: Interfaces = { eth1: [v4("10.0.1.1")] };
  const binding = localBindingOf(["eth0", "eth1"], () => interfaces);
  for (const _ of [1, 2]) assert.equal(binding("s3.example.com").localAddress, "10.0.1.1");
  interfaces = { eth2: [v4("10.0.2.1")] };
  assert.throws(
    () => binding("s3.example.com"),
    (error) =>
      error instanceof AwayFailure &&
      error.message ===
        "--bind eth0, eth1: no such network interface or address now; interfaces are eth2",
  );
  interfaces = INTERFACES;
  assert.equal(binding("2001:db8::1").localAddress, "fd00::1");
});

const found: Answer = (response) =>
  response.writeHead(200, { etag: '"e"', "content-length": 3 }).end();

test("an outage of the interface is waited for", async () => {
  let attempts = 0;
  const binding = () => {
    if (attempts++ < 2) throw new AwayFailure("no address");
    return { localAddress: "127.0.0.77", family: 4 } as const;
  };
  using endpoint = await scripted([found], { binding });
  assert.equal((await endpoint.store.head("k", signal))?.sizeBytes, 3);
});

test("for a new mount each interface must be there: the error names those that are", () => {
  checkBinding(["eth0", "10.0.1.1"], INTERFACES);
  assert.throws(
    () => checkBinding(["eth0", "eth7"], INTERFACES),
    (error) =>
      error instanceof Failure &&
      error.message.endsWith(
        "eth7: no network interface or address of this machine; interfaces are eth0, eth1",
      ),
  );
});

test("the endpoint sees the address that was bound", async () => {
  let seen: string | undefined;
  using endpoint = await scripted(
    [
      (response, request) => {
        seen = request.socket.remoteAddress;
        response.end();
      },
    ],
    { binding: () => ({ localAddress: "127.0.0.77", family: 4 }) },
  );
  await endpoint.transport.send({ method: "GET", key: "k" }, signal);
  assert.equal(seen, "127.0.0.77");
  assert.equal(localBindingOf(["lo"])("127.0.0.1").localAddress, "127.0.0.1");
});

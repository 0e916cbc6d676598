import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { existsSync } from "node:fs";
import { test } from "node:test";
import koffi from "koffi";
import { allocateLarge } from "./large-pages.ts";
import { ownMappings } from "./mappings.ts";

const MIB = 1 << 20;

/** The kernel's words about the mapping with this address. */
function mappingOf(address: bigint): string {
  const found = ownMappings().find((mapping) => {
    const [, start = "", end = ""] = /^([0-9a-f]+)-([0-9a-f]+) /.exec(mapping) ?? [];
    return BigInt(`0x${start}`) <= address && address < BigInt(`0x${end}`);
  });
  return found ?? assert.fail(`nothing is mapped at ${address}`);
}

for (const mib of [2, 3, 8]) {
  test(`${mib} MiB begin at a large page, and the kernel knows that one is wanted`, () => {
    const memory = allocateLarge(mib * MIB);
    assert.equal(memory.length, mib * MIB);
    const address = koffi.address(memory);
    assert.equal(address % BigInt(2 * MIB), 0n);
    memory.fill(7);
    assert(memory.equals(Buffer.alloc(mib * MIB, 7)));
    const hasLargePages = existsSync("/sys/kernel/mm/transparent_hugepage");
    if (hasLargePages) assert.match(mappingOf(address), /^VmFlags:.* hg\b/m);
  });
}

test("what is smaller than a large page takes no more than itself", () => {
  const memory = allocateLarge(MIB);
  assert.equal(memory.buffer.byteLength, MIB);
});

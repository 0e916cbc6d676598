import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import * as fc from "fast-check";
import { Failure } from "../base/failure.ts";
import { Spool } from "./spool.ts";
import type { Segment } from "./segment.ts";

const PAGE_BYTES = 4096;
const PAGES = 16;
const LIMIT_BYTES = 10 * PAGE_BYTES;

interface Step {
  readonly do: "take" | "append" | "charge" | "give" | "crash";
  readonly which: number;
  readonly sizeBytes: number;
}
const anyStep: fc.Arbitrary<Step> = fc.record({
  do: fc.constantFrom("take", "take", "append", "append", "charge", "give", "crash"),
  which: fc.nat({ max: 100 }),
  sizeBytes: fc.constantFrom(1, 100, 4032, 4033, 8000, 30_000),
});

interface Held {
  segment: Segment;
  readonly bytes: Buffer[];
}

class Holder {
  readonly held: Held[] = [];
  readonly #memory = Buffer.alloc(PAGES * PAGE_BYTES);
  #spool = this.#open();
  #mark = 0;

  run({ do: verb, which, sizeBytes }: Step): void {
    const one = this.held[which % Math.max(1, this.held.length)];
    if (verb === "take") this.#take(sizeBytes);
    else if (verb === "crash") this.#crash();
    else if (one !== undefined && verb === "append") this.#append(one, Math.min(sizeBytes, 100));
    else if (one !== undefined && verb === "charge") this.#charge(one, sizeBytes);
    else if (one !== undefined) this.#give(one);
    this.#check();
  }

  #take(sizeBytes: number): void {
    const at = this.#lowestPlaceFor(sizeBytes);
    assert.equal(this.#spool.hasPlaceFor(sizeBytes), at !== undefined);
    if (at === undefined) {
      assert.throws(() => this.#spool.take(sizeBytes), isOf("busy"));
      return;
    }
    const segment = this.#spool.take(sizeBytes, Math.min(sizeBytes, 4032));
    assert.equal(segment.at, at, "the lowest free place");
    this.held.push({ segment, bytes: [] });
  }

  #charge({ segment }: Held, sizeBytes: number): void {
    this.#spool.charge(
      segment,
      Math.min(Math.max(sizeBytes, segment.filledBytes), segment.sizeBytes),
    );
  }

  #append({ segment, bytes }: Held, sizeBytes: number): void {
    if (segment.filledBytes + sizeBytes > segment.chargedBytes) return;
    const data = Buffer.alloc(sizeBytes, (this.#mark += 1));
    segment.append(data);
    bytes.push(data);
  }

  #give(one: Held): void {
    this.held.splice(this.held.indexOf(one), 1);
    this.#spool.give(one.segment);
    this.#spool.give(one.segment); // twice is once
  }

  /** The next process claims what the journal says, in whatever order. */
  #crash(): void {
    this.#spool = this.#open();
    for (const one of this.held.toReversed()) {
      one.segment = this.#spool.claim(one.segment.at, one.segment.sizeBytes);
    }
    this.#spool.releaseUnclaimed();
  }

  #check(): void {
    const taken = new Set<number>();
    for (const { segment, bytes } of this.held) {
      assert.deepEqual(segment.bytes, Buffer.concat(bytes));
      for (const page of pagesOf(segment.at, segment.sizeBytes)) {
        assert(page < PAGES && !taken.has(page), `page ${page} is used twice`);
        taken.add(page);
      }
    }
    const used = this.held.reduce((sum, { segment }) => sum + segment.chargedBytes, 0);
    assert.equal(this.#spool.usedBytes, used);
  }

  #lowestPlaceFor(sizeBytes: number): number | undefined {
    const taken = new Set(
      this.held.flatMap(({ segment }) => pagesOf(segment.at, segment.sizeBytes)),
    );
    for (let page = 0; page < PAGES; page++) {
      const wanted = pagesOf(page * PAGE_BYTES, sizeBytes);
      if (wanted.every((one) => one < PAGES && !taken.has(one))) return page * PAGE_BYTES;
    }
    return undefined;
  }

  #open(): Spool {
    const onIdle = (offset: number, sizeBytes: number) => {
      this.#memory.fill(0, offset, offset + sizeBytes);
    };
    return new Spool(this.#memory, { limitBytes: LIMIT_BYTES, keptBytes: PAGE_BYTES, onIdle });
  }
}

/** A segment's header has 64 bytes. */
function pagesOf(at: number, sizeBytes: number): number[] {
  const pages = Math.ceil((sizeBytes + 64) / PAGE_BYTES);
  return Array.from({ length: pages }, (_, index) => at / PAGE_BYTES + index);
}

const isOf = (kind: string) => (error: unknown) => error instanceof Failure && error.kind === kind;

test("segments never overlap, keep their bytes through crashes, and use the lowest places", () => {
  const property = fc.property(fc.array(anyStep, { minLength: 5, maxLength: 60 }), (steps) => {
    const holder = new Holder();
    for (const step of steps) holder.run(step);
  });
  fc.assert(property, { numRuns: 300 });
});

// prettier-ignore
const wrongClaims: [what: string, at: number, sizeBytes: number][] = [
  ["below",            -PAGE_BYTES,           10],
  ["not at a page",    100,                   10],
  ["behind the end",   PAGES * PAGE_BYTES,    10],
  ["over the end",     15 * PAGE_BYTES,       5000],
  ["on another",       4 * PAGE_BYTES,        10],
  ["into another",     3 * PAGE_BYTES,        5000],
  ["inside another",   5 * PAGE_BYTES,        10],
  ["overfull",         8 * PAGE_BYTES,        10],
  ["of no size",       9 * PAGE_BYTES,        -1],
];
for (const [what, at, sizeBytes] of wrongClaims) {
  test(`a claim that can't be right is refused: ${what}`, () => {
    const memory = Buffer.alloc(PAGES * PAGE_BYTES);
    memory.writeUInt32LE(11, 8 * PAGE_BYTES);
    const spool = new Spool(memory, { limitBytes: LIMIT_BYTES });
    spool.claim(4 * PAGE_BYTES, 2 * PAGE_BYTES - 64);
    assert.throws(() => spool.claim(at, sizeBytes), isOf("invalid"));
  });
}

test("memory is given back when nobody uses any of it, and what small files need is kept", () => {
  const idle: [offset: number, sizeBytes: number][] = [];
  const memory = Buffer.alloc(16 << 20);
  const onIdle = (offset: number, sizeBytes: number) => void idle.push([offset, sizeBytes]);
  const spool = new Spool(memory, { limitBytes: memory.length, onIdle });
  const small = spool.take(100);
  spool.give(small);
  assert.deepEqual(idle, [], "little was used");
  const segments = [spool.take(6 << 20), spool.take(100)];
  for (const segment of segments) {
    assert.deepEqual(idle, [], "somebody uses some of it");
    spool.give(segment);
  }
  const end = (6 << 20) + 2 * PAGE_BYTES;
  assert.deepEqual(idle, [
    [end - PAGE_BYTES, PAGE_BYTES],
    [4 << 20, end - PAGE_BYTES - (4 << 20)],
  ]);
});

test("free memory beyond what is kept is given back while other segments are in use", () => {
  const MIB = 1 << 20;
  const idle: [at: number, sizeBytes: number][] = [];
  const onIdle = (at: number, sizeBytes: number) => void idle.push([at, sizeBytes]);
  const memory = Buffer.alloc(16 * MIB);
  const open = () => {
    idle.length = 0;
    return new Spool(memory, { limitBytes: memory.length, keptBytes: MIB, onIdle });
  };
  const placeOf = (mib: number) => mib * MIB - 64; // a segment's own record counts as well

  const given = open();
  const [first, second] = [given.take(placeOf(4)), given.take(placeOf(4))];
  given.give(first);
  assert.deepEqual(idle, [[MIB, 3 * MIB]], "the second segment stays");
  given.charge(second, placeOf(1));
  assert.deepEqual(idle.slice(1), [[5 * MIB, 3 * MIB]], "and is made smaller");
  given.give(second);

  const next = open();
  next.claim(4 * MIB, placeOf(4));
  next.releaseUnclaimed();
  assert.deepEqual(idle, [
    [0, 4 * MIB],
    [4 * MIB + PAGE_BYTES, 12 * MIB - PAGE_BYTES],
  ]);
});

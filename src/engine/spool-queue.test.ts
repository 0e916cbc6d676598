import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { wholeCharge } from "../journal/segment.ts";
import type { Segment } from "../journal/segment.ts";
import { Spool } from "../journal/spool.ts";
import { SpoolQueue } from "./spool-queue.ts";
import type { SegmentHolder } from "./spool-queue.ts";

const PART_BYTES = 10_000;
const NEVER = new AbortController().signal;

function queueOf(limitBytes: number, hardBytes: number) {
  // Beside the memory for small files, which is a sixteenth.
  const allBytes = Math.ceil((hardBytes * 16) / 15);
  const spool = new Spool(Buffer.alloc(1 << 20), { limitBytes, hardBytes: allBytes });
  return { spool, queue: new SpoolQueue(spool, PART_BYTES) };
}

/** The value of a promise that has settled by now. */
async function settledOf<T>(promise: Promise<T>): Promise<T | "waits"> {
  await new Promise(setImmediate);
  return Promise.race([promise, Promise.resolve("waits" as const)]);
}

test("writers are served in the order in which they asked, the large before the small", async () => {
  const { queue } = queueOf(30_000, 30_000);
  const held = [queue.tryTake(PART_BYTES), queue.tryTake(PART_BYTES), queue.tryTake(PART_BYTES)];
  const served: string[] = [];
  const ask = async (name: string, sizeBytes: number) => {
    const segment = await queue.take(sizeBytes, sizeBytes, NEVER);
    served.push(name);
    return segment;
  };
  const large = ask("large", PART_BYTES);
  void ask("small", 100);
  assert.equal(queue.tryTake(1), undefined, "nobody overtakes");
  for (const segment of held) if (segment !== undefined) queue.give(segment);
  await large;
  await new Promise(setImmediate);
  assert.deepEqual(served, ["large", "small"]);
});

test("beyond the limit writers wait while parts are in flight, and no longer", async () => {
  const { queue } = queueOf(PART_BYTES, 10 * PART_BYTES);
  const first = queue.tryTake(PART_BYTES);
  assert(first !== undefined);
  queue.send(first);
  const second = queue.take(PART_BYTES, PART_BYTES, NEVER);
  assert.equal(await settledOf(second), "waits");
  queue.give(first);
  assert.notEqual(await settledOf(second), "waits");
  assert.notEqual(queue.tryTake(PART_BYTES), undefined, "an idle file does not block the others");
});

test("a writer that leaves gets nothing, and the next one is served", async () => {
  const { queue } = queueOf(PART_BYTES, PART_BYTES);
  const held = queue.tryTake(PART_BYTES);
  assert(held !== undefined);
  const leaving = new AbortController();
  const first = queue.take(PART_BYTES, PART_BYTES, leaving.signal);
  const second = queue.take(PART_BYTES, PART_BYTES, NEVER);
  leaving.abort();
  assert.equal(await first, undefined);
  queue.give(held);
  assert.notEqual(await settledOf(second), "waits");
});

test("a part that can never fit is refused, not waited for", async () => {
  const { queue } = queueOf(PART_BYTES, PART_BYTES);
  await assert.rejects(queue.take(2 * PART_BYTES, 2 * PART_BYTES, NEVER), /exceeds the memory/);
});

async function turnsPass(turns: number): Promise<void> {
  for (let turn = turns; turn > 0; turn--) await new Promise(setImmediate);
}

/** Writers as uploads are: a small segment, then one that can be sent, which returns by itself. */
async function writeFile(queue: SpoolQueue, parts: number, turns: () => number): Promise<void> {
  const pause = () => turnsPass(turns());
  const sending: Promise<void>[] = [];
  const send = async (segment: Segment) => {
    queue.send(segment);
    await pause();
    queue.give(segment);
  };
  let small = await queue.take(100, 100, NEVER);
  for (let part = 0; part < parts; part++) {
    await pause();
    const large = await queue.take(PART_BYTES, PART_BYTES, NEVER);
    if (small !== undefined) queue.give(small);
    small = undefined;
    await pause();
    if (large !== undefined) sending.push(send(large));
  }
  await Promise.all(sending);
  if (small !== undefined) queue.give(small);
}

test("whatever the order, all writers come to their end within the hard limit", async () => {
  const files = fc.array(fc.nat({ max: 4 }), { minLength: 1, maxLength: 40 });
  const property = fc.asyncProperty(
    files,
    fc.infiniteStream(fc.nat({ max: 3 })),
    async (all, n) => {
      const { spool, queue } = queueOf(5_000, 15_000);
      let usedMax = 0;
      const watch = setInterval(() => (usedMax = Math.max(usedMax, spool.usedBytes)), 0);
      const turns = () => n.next().value ?? 0;
      try {
        await Promise.all(all.map((parts) => writeFile(queue, parts, turns)));
      } finally {
        clearInterval(watch);
      }
      assert(usedMax <= 15_000, `${usedMax} bytes`);
      assert.equal(spool.usedBytes, 0);
      assert.equal(queue.waiting, 0);
    },
  );
  await fc.assert(property, { numRuns: 100 });
});

/** In whole pages, as all memory is granted. */
const LARGE_PART_BYTES = wholeCharge(96_000);
const FIRST_BYTES = 1_000;
/** A place that grows in steps. */
const PLACE_BYTES = wholeCharge(9_000);

/** A segment, also after the engine that took it has died. */
interface Held {
  segment: Segment;
}

/** The memory for writes, which outlives one engine after the other. */
class MortalQueue {
  readonly #memory = Buffer.alloc(1 << 20);
  readonly #held = new Set<Held>();
  #death = new AbortController();
  #spool!: Spool;
  #queue!: SpoolQueue;

  constructor() {
    this.#start();
  }

  get usedBytes(): number {
    return this.#spool.usedBytes;
  }

  get hardBytes(): number {
    return this.#spool.hardBytes;
  }

  die(): void {
    const { usedBytes } = this;
    this.#death.abort();
    this.#death = new AbortController();
    this.#start();
    for (const held of this.#held) {
      const { at, sizeBytes } = held.segment;
      held.segment = this.#queue.claim(at, sizeBytes);
    }
    assert(this.usedBytes <= usedBytes, `${this.usedBytes} bytes after the death of ${usedBytes}`);
  }

  /** Bytes of whole pages that have data, without the headers. */
  get #pageBytes(): number {
    return this.#held
      .values()
      .reduce((sum, { segment }) => sum + wholeCharge(segment.filledBytes), 0);
  }

  /** Asks one engine after the other until one of them has memory. */
  async take(
    sizeBytes: number,
    ask: (queue: SpoolQueue, death: AbortSignal) => Promise<Segment | undefined>,
  ): Promise<Held> {
    for (;;) {
      const { signal } = this.#death;
      const segment = await ask(this.#queue, signal);
      if (segment === undefined || signal.aborted) continue;
      segment.append(Buffer.alloc(sizeBytes));
      const held = { segment };
      this.#held.add(held);
      const pageBytes = this.#pageBytes;
      assert(pageBytes <= this.#spool.hardBytes, `${pageBytes} bytes of whole pages`);
      return held;
    }
  }

  give(held: Held): void {
    this.#held.delete(held);
    this.#queue.give(held.segment);
  }

  /** A successor sends again what was on its way. */
  async send(held: Held, pause: () => Promise<void>): Promise<void> {
    for (;;) {
      const { signal } = this.#death;
      this.#queue.send(held.segment);
      await pause();
      if (!signal.aborted) return this.give(held);
    }
  }

  #start(): void {
    this.#spool = new Spool(this.#memory, { limitBytes: 30_000, hardBytes: 130_000 });
    this.#queue = new SpoolQueue(this.#spool, LARGE_PART_BYTES);
  }
}

test("all writers come to their end however often engines die", async () => {
  const files = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 40 });
  const lives = fc.array(fc.nat({ max: 12 }), { maxLength: 6 });
  const property = fc.asyncProperty(
    files,
    lives,
    fc.infiniteStream(fc.nat({ max: 3 })),
    async (all, turnsOfLives, n) => {
      const queue = new MortalQueue();
      const pause = () => turnsPass(n.next().value ?? 0);
      const write = async (parts: number) => {
        const isSmall = parts % 2 === 1;
        let first: Held | undefined = await queue.take(FIRST_BYTES, (life, death) =>
          isSmall
            ? life.takeSmall(wholeCharge(FIRST_BYTES), death)
            : life.take(PLACE_BYTES, FIRST_BYTES, death),
        );
        for (let part = 0; part < parts; part++) {
          await pause();
          const large = await queue.take(LARGE_PART_BYTES, (life, death) =>
            life.take(LARGE_PART_BYTES, LARGE_PART_BYTES, death),
          );
          assert(queue.usedBytes <= queue.hardBytes, `${queue.usedBytes} bytes`);
          if (first !== undefined) queue.give(first);
          first = undefined;
          await queue.send(large, pause);
        }
      };
      const written = Promise.all(all.map((parts) => write(parts)));
      for (const turns of turnsOfLives) {
        await turnsPass(turns);
        queue.die();
      }
      const end = await Promise.race([written, turnsPass(1_000).then(() => "nobody can go on")]);
      assert.notEqual(end, "nobody can go on");
      assert.equal(queue.usedBytes, 0);
    },
  );
  await fc.assert(property, { numRuns: 200 });
});

test("a small request that is kept from the reserve does not block those that may take it", async () => {
  const { queue } = queueOf(5_000, 22_500);
  const held = Array.from({ length: 6 }, () => queue.tryTake(2_000));
  assert(held.every((segment) => segment !== undefined));
  const small = queue.take(2_000, 2_000, NEVER);
  const large = queue.take(PART_BYTES, PART_BYTES, NEVER);
  const part = await settledOf(large);
  assert(part !== "waits" && part !== undefined, "a part can be filled and sent");
  assert.equal(await settledOf(small), "waits");
  for (const segment of held) if (segment !== undefined) queue.give(segment);
  assert.notEqual(await settledOf(small), "waits");
});

/** A file whose program writes nothing at the moment. */
class IdleFile implements SegmentHolder {
  readonly segment: { readonly segment: Segment };
  readonly isBusy = false;
  isSendable = false;
  readonly #queue: SpoolQueue;

  constructor(queue: SpoolQueue, segment: Segment | undefined, filledBytes: number) {
    assert(segment !== undefined);
    segment.append(Buffer.alloc(filledBytes));
    this.segment = { segment };
    this.#queue = queue;
    queue.addHolder(this);
  }

  sendIdle(): void {
    this.#queue.removeHolder(this);
    this.#queue.send(this.segment.segment);
    this.#queue.give(this.segment.segment);
  }
}

test("idle files give up what they have not filled before a writer waits for them", async () => {
  const { queue, spool } = queueOf(PART_BYTES, 2 * PART_BYTES);
  const idle = new IdleFile(queue, queue.tryTake(PART_BYTES), 100);
  const other = queue.tryTake(PART_BYTES);
  assert(other !== undefined);
  assert.notEqual(await settledOf(queue.charge(other, PART_BYTES, NEVER)), "waits");
  const part = await settledOf(queue.take(5_000, 5_000, NEVER));
  assert.equal(part, "waits", "the reserve is for a whole part");
  assert.equal(idle.segment.segment.chargedBytes, 4032, "one page");
  queue.give(other);
  assert.equal(spool.usedBytes, 4032 + 5_000);
});

test("an idle file that S3 accepts as a part is sent for those that wait", async () => {
  const { queue } = queueOf(PART_BYTES, PART_BYTES);
  const idle = new IdleFile(queue, queue.tryTake(PART_BYTES), PART_BYTES);
  idle.isSendable = true;
  assert.notEqual(await settledOf(queue.take(PART_BYTES, PART_BYTES, NEVER)), "waits");
});

test("small files have memory of their own, which larger ones can't use up", async () => {
  const { queue, spool } = queueOf(PART_BYTES, PART_BYTES);
  const idle = queue.tryTake(PART_BYTES);
  const first = await settledOf(queue.takeSmall(600, NEVER));
  assert(idle !== undefined && first !== "waits" && first !== undefined);
  const second = queue.takeSmall(600, NEVER);
  assert.equal(await settledOf(second), "waits");
  queue.give(first);
  assert.notEqual(await settledOf(second), "waits");
  assert(spool.usedBytes <= spool.hardBytes);
});

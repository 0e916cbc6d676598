import assert from "node:assert/strict";
import { test } from "node:test";
import type { S3Client } from "@aws-sdk/client-s3";
import { Turnstile } from "../s3/turnstile.ts";
import { BucketEmptier } from "./bucket-emptier.ts";
import type { EmptyingProgress } from "./buckets.ts";

const PAGE_KEYS = 1_000;
const PREFIX = "team/1234/";
const signal = AbortSignal.timeout(30_000);
const ACCESS_DENIED = { Code: "AccessDenied", Message: "Access Denied" };
const LOCKED = {
  ...ACCESS_DENIED,
  Message: "Access Denied because object protected by object lock.",
};

interface KeyRefusal {
  readonly Code: string;
  readonly Message: string;
}

interface Contents {
  /** Keys by page, as the server lists them. */
  readonly pages?: readonly (readonly string[])[];
  readonly uploads?: readonly string[];
  readonly encodingType?: string;
  readonly refuses?: (key: string) => KeyRefusal | undefined;
  /** The answer to a whole DeleteObjects request. */
  readonly refusesAll?: KeyRefusal;
}

interface Input {
  readonly ContinuationToken?: string;
  readonly KeyMarker?: string;
  readonly Key?: string;
  readonly Delete?: { readonly Objects: readonly { readonly Key: string }[] };
}

/** An S3 server that lists the same pages always, whatever prefix is asked for. */
class FakeServer {
  readonly calls: string[] = [];
  readonly deleted: string[] = [];
  readonly aborted: string[] = [];
  readonly #contents: Contents;

  constructor(contents: Contents) {
    this.#contents = contents;
  }

  emptier(): BucketEmptier {
    const client = { send: async (command: object) => this.#answer(command) };
    return new BucketEmptier(client as unknown as S3Client, "http://s3", new Turnstile(16));
  }

  #answer(command: object): object {
    const call = command.constructor.name.replace("Command", "");
    this.calls.push(call);
    const { input } = command as { input: Input };
    if (call === "ListMultipartUploads") return { Uploads: this.#uploads() };
    if (call === "ListObjectsV2" || call === "ListObjectVersions") return this.#page(input);
    if (call === "DeleteObjects") return { Errors: this.#delete(input) };
    assert.equal(call, "AbortMultipartUpload");
    this.aborted.push(input.Key ?? "");
    return {};
  }

  #uploads() {
    return (this.#contents.uploads ?? []).map((Key) => ({ Key, UploadId: `id of ${Key}` }));
  }

  #page({ ContinuationToken, KeyMarker }: Input) {
    const { pages = [], encodingType } = this.#contents;
    const index = Number(ContinuationToken ?? KeyMarker ?? "0");
    const listed = (pages[index] ?? []).map((Key) => ({ Key }));
    const next = String(index + 1);
    return {
      Contents: listed,
      Versions: listed,
      IsTruncated: index + 1 < pages.length,
      NextContinuationToken: next,
      NextKeyMarker: next,
      ...(encodingType === undefined ? {} : { EncodingType: encodingType }),
    };
  }

  #delete({ Delete }: Input) {
    const { refuses, refusesAll } = this.#contents;
    if (refusesAll !== undefined) {
      const { Code, Message } = refusesAll;
      const $metadata = { httpStatusCode: 403 };
      throw Object.assign(new Error(Message), { name: Code, $metadata });
    }
    return (Delete?.Objects ?? []).flatMap(({ Key }) => {
      const refusal = refuses?.(Key);
      if (refusal === undefined) this.deleted.push(Key);
      return refusal === undefined ? [] : [{ Key, ...refusal }];
    });
  }
}

interface Emptying {
  readonly prefix?: string;
  readonly progress?: EmptyingProgress;
}

function empty(server: FakeServer, { prefix = "", progress = {} }: Emptying = {}) {
  const request = { bucket: "b", prefix, versions: prefix === "", deadlineMs: Infinity, progress };
  return server.emptier().empty(request, signal);
}

const refusing = (refused: string, refusal: KeyRefusal) => (key: string) =>
  key.startsWith(refused) ? refusal : undefined;
const allButFree = (key: string) => (key.startsWith("free/") ? undefined : ACCESS_DENIED);
const page = (name: string, count = PAGE_KEYS) =>
  Array.from({ length: count }, (_, index) => `${name}/${index}`);

for (const [prefix, rights] of [
  ["", /s3:DeleteObject and s3:DeleteObjectVersion on bucket b/],
  [PREFIX, /s3:DeleteObject on bucket b/],
] as const) {
  test(`emptying "${prefix}" ends at the first page that is refused with AccessDenied`, async () => {
    const pages = Array.from({ length: 10 }, (_, index) => page(`${prefix}${index}`));
    const server = new FakeServer({ pages, refuses: () => ACCESS_DENIED });
    const progress: EmptyingProgress = {};
    const work = empty(server, { prefix, progress });
    await assert.rejects(work, { kind: "denied", message: rights });
    assert.equal(server.calls.filter((call) => call.startsWith("ListObject")).length, 1);
    assert.equal(server.calls.filter((call) => call === "DeleteObjects").length, 4);
    assert.deepEqual(progress, {}, "the next call begins at the front");
  });
}

test("a DeleteObjects request that is refused as a whole names the missing permission", async () => {
  const pages = Array.from({ length: 10 }, (_, index) => page(`${index}`));
  const server = new FakeServer({ pages, refusesAll: ACCESS_DENIED });
  const message = /grant the access key s3:DeleteObject and s3:DeleteObjectVersion on bucket b/;
  await assert.rejects(empty(server), { kind: "denied", message });
  assert.equal(server.calls.filter((call) => call.startsWith("ListObject")).length, 1);
});

test("a refused page does not end a pass that has deleted objects before", async () => {
  const pages = [[...page("a", 999), "free/1"], page("b"), ["free/2"]];
  const server = new FakeServer({ pages, refuses: allButFree });
  await assert.rejects(empty(server), { kind: "denied", message: /a\/0 and 1998 more/ });
  assert.deepEqual(server.deleted, ["free/1", "free/2"]);
});

test("the calls of one pass know that an earlier call has deleted objects", async () => {
  const pages = [page("free"), page("b"), ["free/last"]];
  const progress: EmptyingProgress = {};
  const first = { bucket: "b", prefix: "", versions: true, deadlineMs: 0, progress };
  const server = new FakeServer({ pages, refuses: allButFree });
  assert.equal(await server.emptier().empty(first, signal), "more");
  // The objects of the first page are gone by now.
  const rest = new FakeServer({ pages: pages.slice(1), refuses: allButFree });
  await assert.rejects(empty(rest, { progress }), { kind: "denied", message: /b\/0 and 999 more/ });
  assert.deepEqual(rest.deleted, ["free/last"]);
  assert.deepEqual(progress, {});
});

test("a page of objects under Object Lock does not keep those behind it", async () => {
  const pages = [page("locked"), ["free"]];
  const server = new FakeServer({ pages, refuses: refusing("locked/", LOCKED) });
  await assert.rejects(empty(server), { kind: "denied", message: /locked\/0 and 999 more/ });
  assert.deepEqual(server.deleted, ["free"]);
});

const MINUTE_MS = 60_000;
for (const [what, refusal, isLong] of [
  ["Object Lock", LOCKED, true],
  ["an internal error of the server", { Code: "InternalError", Message: "again" }, false],
] as const) {
  test(`the next pass after a refusal by ${what} comes ${isLong ? "much later" : "soon"}`, async () => {
    const server = new FakeServer({ pages: [page("a")], refuses: refusing("a/0", refusal) });
    await assert.rejects(empty(server), (error: { retryAfterMs?: number }) => {
      assert.equal((error.retryAfterMs ?? 0) > 10 * MINUTE_MS, isLong);
      return true;
    });
  });
}

const IGNORED = /http:\/\/s3: the S3 server ignores the prefix of listings: nothing outside/;
const foreign = "other-tenant/5678/k";

test("nothing is deleted where the S3 server lists objects outside the prefix", async () => {
  for (const pages of [[[`${PREFIX}own`, foreign]], [[foreign]], [["team/1234"]]]) {
    for (const versions of [false, true]) {
      const server = new FakeServer({ pages });
      const place = { bucket: "b", prefix: PREFIX, deadlineMs: Infinity, progress: {} };
      const work = server.emptier().empty({ ...place, versions }, signal);
      await assert.rejects(work, (error: Error) => {
        assert.match(error.message, IGNORED);
        assert(!error.message.includes(foreign), "a key is for its own tenant");
        return true;
      });
      assert.deepEqual(server.deleted, []);
    }
  }
});

test("nothing is aborted where the S3 server lists uploads outside the prefix", async () => {
  for (const uploads of [[`${PREFIX}own`, foreign], [encodeURIComponent(foreign)]]) {
    const server = new FakeServer({ uploads, pages: [[`${PREFIX}own`]] });
    await assert.rejects(empty(server, { prefix: PREFIX }), { message: IGNORED });
    assert.deepEqual([server.aborted, server.deleted], [[], []]);
  }
});

const listed = [`${PREFIX}a b`, `${PREFIX}100%`];
for (const [what, encodingType] of [
  ["as it is asked to", "url"],
  ["without saying so", undefined],
] as const) {
  test(`keys below the prefix are deleted where the server encodes them ${what}`, async () => {
    const encoded = listed.map(encodeURIComponent);
    const server = new FakeServer({
      pages: [encoded],
      uploads: encoded,
      ...(encodingType === undefined ? {} : { encodingType }),
    });
    assert.equal(await empty(server, { prefix: PREFIX }), "empty");
    assert.deepEqual(server.deleted, listed);
    assert.deepEqual(server.aborted, listed, "the encoded form is no key below the prefix");
  });
}

import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { bodyOf, Relay } from "../../tools/stack/relay.ts";
import type { RelayedAnswer } from "../../tools/stack/relay.ts";
import { KeyLocks } from "./key-locks.ts";
import { STALL_MS } from "./soak-faults.ts";
import type { RequestKind, SoakFault, SoakFaults } from "./soak-faults.ts";
import type { Failures } from "./soak-history.ts";
import { sharedMs } from "./soak-report.ts";
import type { TestBucket } from "./test-bucket.ts";

interface Asked {
  readonly kind: RequestKind;
  readonly key: string;
  readonly request: IncomingMessage;
  readonly body: Buffer;
}

const CHANGES: ReadonlySet<RequestKind> = new Set(["put", "delete", "complete"]);
/** The half of a truncated answer arrives before the end of its connection does. */
const ARRIVAL_MS = 20;
/** An engine reads an answer and notes what follows from it within this time, or is dead. */
const UNREAD_MS = 2_000;
const WRONG_ETAG = '"5af0000000000000000000000000dead"';
const BUSY =
  "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
const BROKEN = "<Error><Code>InternalError</Code><Message>An error occurred.</Message></Error>";

/**
 * Between an engine and S3. Faults come by a plan; beyond them S3 is atomic here, and a request
 * whose sender has gone is either done before the next one for its key, or never: so the order in
 * which programs saw their calls return says what the bucket must hold.
 */
export class SoakProxy extends Relay {
  /** Called when a request for that key begins to wait for longer than programs have to. */
  onStall: (key: string) => void = () => undefined;
  readonly #bucket: TestBucket;
  readonly #faults: SoakFaults;
  readonly #locks = new KeyLocks();
  readonly #lost = new Map<string, number[]>();
  readonly #failedDeletes = new Map<string, number[]>();
  readonly #deaths: number[] = [];
  /** Changes that were answered lately. */
  #recent: { readonly key: string; readonly at: number }[] = [];
  readonly #unfinished = new Set<Promise<unknown>>();

  private constructor(bucket: TestBucket, faults: SoakFaults) {
    super(bucket.access.endpoint);
    this.#bucket = bucket;
    this.#faults = faults;
  }

  static start(bucket: TestBucket, faults: SoakFaults): Promise<SoakProxy> {
    return new SoakProxy(bucket, faults).listen();
  }

  failuresOf(key: string): Failures {
    const repeated = [...(this.#failedDeletes.get(key) ?? []), ...this.#deaths];
    return { lost: this.#lost.get(key) ?? [], repeated };
  }

  /** The engine was killed: answers that it got just now may have died with it, unread. */
  engineDied(): void {
    this.#deaths.push(sharedMs());
    for (const change of this.#recentSince(sharedMs())) this.#noteLost(change);
  }

  /** A change of the object by another client than the mount, as atomic as all others. */
  elsewhere<T>(key: string, change: () => Promise<T>): Promise<T> {
    return this.#locks.exclusively(lockOf(key), change);
  }

  /** Nothing is on its way to S3 any more. */
  async idle(): Promise<void> {
    while (this.#unfinished.size > 0) await Promise.allSettled(this.#unfinished);
    await this.#locks.idle();
  }

  protected async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { kind, key } = kindOf(request, this.#bucket.name);
    const fault = this.#faults.decide(kind);
    const isDelay = fault === "delay" || fault === "stall";
    if (kind === "delete" && fault !== undefined && !isDelay) {
      this.#failedDeletes.set(key, [...(this.#failedDeletes.get(key) ?? []), sharedMs()]);
    }
    if (fault === "drop the request") {
      request.socket.destroy();
      return;
    }
    const body = await bodyOf(request);
    if (fault === "delay") await delay(this.#faults.delayMs);
    if (fault === "stall") {
      this.onStall(key);
      await delay(STALL_MS);
    }
    if (fault === "500" || fault === "503") {
      response.writeHead(Number(fault), { "content-type": "application/xml" });
      response.end(request.method === "HEAD" ? "" : fault === "503" ? BUSY : BROKEN);
      return;
    }
    const asked = { kind, key, request, body };
    const done = this.#locked(asked, () => this.#ask(asked));
    this.#unfinished.add(done);
    const answer = await done.finally(() => this.#unfinished.delete(done));
    if (answer === undefined) return;
    const isTold = await answerWith(asked, response, answer, fault);
    if (!CHANGES.has(kind) || answer.status >= 300) return;
    const change = { key, at: sharedMs() };
    if (isTold) this.#recent = [...this.#recentSince(change.at), change];
    else this.#noteLost(change);
  }

  #recentSince(at: number) {
    return this.#recent.filter((change) => change.at > at - UNREAD_MS);
  }

  /** S3 has changed that object and the engine was not told. */
  #noteLost({ key, at }: { readonly key: string; readonly at: number }): void {
    this.#lost.set(key, [...(this.#lost.get(key) ?? []), at]);
  }

  /** Undefined: the sender has gone meanwhile, and nothing was done for it. */
  async #locked({ kind, key, request }: Asked, forward: () => Promise<RelayedAnswer>) {
    const unlessGone = async () => (request.socket.destroyed ? undefined : forward());
    if (CHANGES.has(kind)) return this.#locks.exclusively(lockOf(key), unlessGone);
    if (kind === "get" || kind === "head") return this.#locks.shared(lockOf(key), unlessGone);
    return unlessGone();
  }

  async #ask(asked: Asked): Promise<RelayedAnswer> {
    const answer = await this.forward(asked.request, asked.body);
    if (answer.status !== 412 || asked.kind !== "get") return answer;
    return this.#ignoreCondition(asked, answer);
  }

  /** Some servers do not know If-Match: half of the time this one answers as they do. */
  async #ignoreCondition({ key, request }: Asked, refusal: RelayedAnswer): Promise<RelayedAnswer> {
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    const object = await this.#bucket.get(key).catch(() => undefined);
    const from = Number(range?.[1]);
    if (range === null || object === undefined || from >= object.length) return refusal;
    if (this.#faults.delayMs % 2 === 0) return refusal;
    const body = object.subarray(from, Number(range[2]) + 1);
    const headers = {
      etag: WRONG_ETAG,
      "content-length": String(body.length),
      "content-range": `bytes ${from}-${from + body.length - 1}/${object.length}`,
    };
    return { status: 206, headers, body };
  }
}

/** False: the sender does not get the answer. */
async function answerWith(
  { request, kind }: Asked,
  response: ServerResponse,
  { status, headers, body }: RelayedAnswer,
  fault: SoakFault | undefined,
): Promise<boolean> {
  if (fault === "lose the answer" || request.socket.destroyed) {
    request.socket.destroy();
    return false;
  }
  if (fault === "wrong ETag") headers["etag"] = WRONG_ETAG;
  response.writeHead(status, headers);
  const hasBody = request.method !== "HEAD" && body.length > 0;
  if (fault !== "truncate" || !hasBody) {
    const sent = Promise.withResolvers<boolean>();
    response.once("close", () => sent.resolve(response.writableFinished));
    response.end(hasBody ? body : undefined);
    return sent.promise;
  }
  response.write(body.subarray(0, body.length / 2));
  await delay(ARRIVAL_MS);
  request.socket.destroy();
  return kind !== "complete";
}

/** The server keeps keys as files: one that goes may take its directories with it. */
function lockOf(key: string): string {
  return key.split("/")[0] ?? "";
}

function kindOf(
  { method, url }: IncomingMessage,
  bucket: string,
): { readonly kind: RequestKind; readonly key: string } {
  const { pathname, searchParams: query } = new URL(url ?? "", "http://s3");
  const key = decodeURIComponent(pathname).slice(`/${bucket}/`.length);
  if (method === "HEAD") return { kind: "head", key };
  const ofUpload = query.has("uploadId");
  if (method === "GET") return { kind: key === "" || ofUpload ? "list" : "get", key };
  if (method === "PUT") return { kind: ofUpload ? "part" : "put", key };
  if (method === "DELETE") return { kind: ofUpload ? "abort" : "delete", key };
  return { kind: ofUpload ? "complete" : "create", key };
}

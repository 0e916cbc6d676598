import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { sha256 } from "../sys/openssl.ts";
import type { CaBundle } from "./ca-bundle.ts";
import type { CredentialSource } from "./credentials.ts";
import { HttpPool } from "./http-pool.ts";
import type { PooledResponse } from "./http-pool.ts";
import type { HttpProxy } from "./http-proxy.ts";
import type { LocalBinding } from "./local-binding.ts";
import { AwayFailure, PermanentFailure, RefusedFailure, UnexplainedFailure } from "./retry.ts";
import type { HttpResponse, ResponseTarget } from "./response-reader.ts";
import { failureOf, isAway, isTransient, regionIn, serverTimeIn } from "./s3-error.ts";
import type { S3Location } from "./s3-location.ts";
import { ServerClock } from "./server-clock.ts";
import {
  canonicalQuery,
  EMPTY_PAYLOAD_SHA256,
  encodeKey,
  Signer,
  UNSIGNED_PAYLOAD,
} from "./sign.ts";
import type { Signable } from "./sign.ts";

/** A correction each for region and clock; a third refusal is final. */
const CORRECTIONS_MAX = 2;

/** Where requests go, and through which proxy. */
export interface S3Route {
  readonly location: S3Location;
  readonly proxy?: HttpProxy | undefined;
}

export interface TransportOptions extends S3Route {
  /** The route to the bucket in the region that S3 names. Undefined: the region was chosen. */
  readonly reroute?: ((region: string) => S3Route) | undefined;
  /** The local addresses that connections start from. Undefined: the kernel's choice. */
  readonly binding?: LocalBinding | undefined;
  /** Undefined: requests are not signed. */
  readonly credentials: CredentialSource | undefined;
  readonly ca: CaBundle | undefined;
  readonly userAgent: string;
  readonly connectionsMax: number;
  readonly connectTimeoutMs: number;
  readonly silenceLimitMs: number;
  readonly signsPayload: boolean;
  /** Headers that every request carries, e.g. x-amz-request-payer. */
  readonly extraHeaders: Readonly<Record<string, string>>;
  readonly log?: Log;
  /** The time of day; tests have others. */
  readonly clock?: () => number;
}

export interface S3Request {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  /** Empty for the bucket itself. */
  readonly key: string;
  readonly query?: readonly (readonly [name: string, value: string])[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly target?: ResponseTarget;
}

/** One signed request to one bucket. Answers that are no success come back as Failures. */
export class S3Transport {
  readonly #options: TransportOptions;
  #location: S3Location;
  #pool: HttpPool;
  #signer: Signer | undefined;
  #isRerouted = false;
  /** How far the server's clock is ahead of ours, once it has refused ours. */
  #clockOffsetMs = 0;
  readonly #serverClock = new ServerClock();

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#location = options.location;
    this.#pool = this.#poolFor(options);
  }

  /** A time of day that the clock of S3 has reached: see ServerClock. */
  earliestNowMs(): number {
    return this.#serverClock.earliestMs(this.#signingMs());
  }

  get signs(): boolean {
    return this.#options.credentials !== undefined;
  }

  /** Sends again at once when S3 corrects the region or the clock. */
  async send(request: S3Request, signal: AbortSignal): Promise<PooledResponse> {
    for (let corrections = 0; ; corrections++) {
      const signer = this.#currentSigner();
      const { region } = this.#location;
      const signedMs = this.#signingMs();
      const response = await this.#exchange(request, signer, signedMs, signal);
      if (response.status >= 200 && response.status < 300) {
        // The date of an answer with many bytes is old when the last of them is here.
        const isPrompt = request.target === undefined;
        if (isPrompt) this.#serverClock.note(response.headers, signer && signedMs);
        return response;
      }
      const isCorrected =
        corrections < CORRECTIONS_MAX &&
        ((await this.#correctsRegion(request, response, region, signal)) ||
          (signer !== undefined && this.#correctsClock(response, signedMs)));
      if (!isCorrected) throw this.#failureFor(request, response, signer);
    }
  }

  close(): void {
    this.#pool.close();
  }

  /** The time of day by the server's clock once it has refused ours, else by ours. */
  #signingMs(): number {
    return (this.#options.clock ?? Date.now)() + this.#clockOffsetMs;
  }

  #exchange(
    request: S3Request,
    signer: Signer | undefined,
    signedMs: number,
    signal: AbortSignal,
  ): Promise<PooledResponse> {
    const path = `${this.#location.basePath}/${encodeKey(request.key)}`;
    const query = canonicalQuery(request.query ?? []);
    return this.#pool.exchange(
      {
        method: request.method,
        target: query === "" ? path : `${path}?${query}`,
        headers: this.#headersOf(request, { path, query }, signer, signedMs),
        body: request.body === undefined ? [] : [request.body],
        responseTarget: request.target,
        silenceLimitMs: this.#options.silenceLimitMs,
        repeatable: isRepeatable(request),
      },
      signal,
    );
  }

  #failureFor(request: S3Request, response: HttpResponse, signer: Signer | undefined): Failure {
    const failure = failureOf(this.#subjectOf(request), response);
    const isRotated = failure.kind === "denied" && this.#hasNewKeys(signer);
    if (isAway(response)) return new AwayFailure(failure.message);
    if (isRotated) return new RefusedFailure(failure.message);
    if (isTransient(response)) {
      const { message } = failure;
      return response.status < 500 ? new RefusedFailure(message) : new Failure("remote", message);
    }
    if (failure.kind !== "remote") return failure;
    const isExplained = request.method !== "HEAD" || response.status !== 400;
    const Permanent = isExplained ? PermanentFailure : UnexplainedFailure;
    return new Permanent(failure.message);
  }

  /** Whether the bucket turned out to be in another region than the request was sent to. */
  async #correctsRegion(
    request: S3Request,
    response: HttpResponse,
    sentTo: string,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { reroute, log } = this.#options;
    if (reroute === undefined) return false;
    const region = regionIn(response);
    const isUnexplained = response.status === 301 || response.status === 400;
    if (region === undefined && request.method === "HEAD" && isUnexplained && !this.#isRerouted) {
      // S3 says nothing in its answer to a HEAD; asked for a listing, it names the region.
      const query = [
        ["list-type", "2"],
        ["max-keys", "0"],
      ] as const;
      await this.send({ method: "GET", key: "", query }, signal).catch((error: unknown) => {
        if (!(error instanceof Failure)) throw error; // else the answer to the HEAD stands
      });
    } else if (region !== undefined && region !== sentTo && !this.#isRerouted) {
      this.#isRerouted = true;
      log?.info({ region, assumedRegion: sentTo }, "bucket region detected");
      const route = reroute(region);
      this.#signer = undefined;
      this.#location = route.location;
      this.#pool.close();
      this.#pool = this.#poolFor(route);
    }
    return this.#location.region !== sentTo;
  }

  #correctsClock(response: HttpResponse, signedMs: number): boolean {
    const serverMs = serverTimeIn(response, signedMs);
    if (serverMs === undefined) return false;
    const isNews = this.#clockOffsetMs === 0;
    this.#clockOffsetMs += serverMs - this.#signingMs();
    const skewMs = -Math.round(this.#clockOffsetMs);
    if (isNews) this.#options.log?.warn({ skewMs }, "local clock differs from that of S3");
    return true;
  }

  #poolFor({ location, proxy }: S3Route): HttpPool {
    const { host, port, tls } = location;
    const { ca, connectTimeoutMs, binding, connectionsMax } = this.#options;
    return new HttpPool({ host, port, tls, ca, proxy, connectTimeoutMs, binding }, connectionsMax);
  }

  #headersOf(
    request: S3Request,
    sent: Pick<Signable, "path" | "query">,
    signer: Signer | undefined,
    signedMs: number,
  ) {
    const { extraHeaders, userAgent } = this.#options;
    const headers: Record<string, string> = {
      host: this.#location.hostHeader,
      "user-agent": userAgent,
      ...extraHeaders,
      ...request.headers,
    };
    const { body, method } = request;
    if (body !== undefined || method === "PUT" || method === "POST") {
      headers["content-length"] = String(body?.length ?? 0);
    }
    if (signer === undefined) return headers;
    const payloadSha256 = this.#payloadHash(body);
    return signer.sign({ method, ...sent, headers, payloadSha256 }, signedMs);
  }

  /** A signer keeps the day's key of its credentials: others need another one. */
  #currentSigner(): Signer | undefined {
    const current = this.#options.credentials?.current();
    if (current === undefined) return undefined;
    if (this.#signer?.credentials !== current) {
      this.#signer = new Signer(current, this.#location.region);
    }
    return this.#signer;
  }

  #hasNewKeys(refused: Signer | undefined): boolean {
    return refused !== undefined && this.#options.credentials?.renew(refused.credentials) === true;
  }

  #payloadHash(body: Uint8Array | undefined): string {
    if (body === undefined || body.length === 0) return EMPTY_PAYLOAD_SHA256;
    if (!this.#options.signsPayload) return UNSIGNED_PAYLOAD;
    return sha256(body).toString("hex");
  }

  #subjectOf(request: S3Request): string {
    const { bucket } = this.#location;
    const object = request.key === "" ? `bucket ${bucket}` : `s3://${bucket}/${request.key}`;
    return `${request.method} ${object}`;
  }
}

/** Reads, and steps of an upload that a second time have the same effect or none. */
function isRepeatable({ method, query }: S3Request): boolean {
  if (method === "GET" || method === "HEAD") return true;
  return method !== "POST" && query?.some(([name]) => name === "uploadId") === true;
}

import { Failure } from "../base/failure.ts";
import { sha256 } from "../sys/openssl.ts";
import type { CredentialSource } from "./credentials.ts";
import { HttpPool } from "./http-pool.ts";
import type { PooledResponse } from "./http-pool.ts";
import type { HttpProxy } from "./http-proxy.ts";
import { AwayFailure, PermanentFailure } from "./retry.ts";
import type { ResponseTarget } from "./response-reader.ts";
import { failureOf, isAway, isTransient } from "./s3-error.ts";
import type { S3Location } from "./s3-location.ts";
import {
  canonicalQuery,
  EMPTY_PAYLOAD_SHA256,
  encodeKey,
  Signer,
  UNSIGNED_PAYLOAD,
} from "./sign.ts";
import type { Signable } from "./sign.ts";

export interface TransportOptions {
  readonly location: S3Location;
  /** Undefined: requests are not signed. */
  readonly credentials: CredentialSource | undefined;
  readonly ca: string | undefined;
  readonly proxy?: HttpProxy | undefined;
  readonly userAgent: string;
  readonly connectionsMax: number;
  readonly connectTimeoutMs: number;
  readonly silenceLimitMs: number;
  readonly signsPayload: boolean;
  /** Headers that every request carries, e.g. x-amz-request-payer. */
  readonly extraHeaders: Readonly<Record<string, string>>;
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
  readonly #pool: HttpPool;
  #signer: Signer | undefined;

  constructor(options: TransportOptions) {
    const { location, ca, proxy, connectTimeoutMs } = options;
    const { host, port, tls } = location;
    this.#options = options;
    const origin = { host, port, tls, ca, proxy, connectTimeoutMs };
    this.#pool = new HttpPool(origin, options.connectionsMax);
  }

  async send(request: S3Request, signal: AbortSignal): Promise<PooledResponse> {
    const { location, silenceLimitMs } = this.#options;
    const path = `${location.basePath}/${encodeKey(request.key)}`;
    const query = canonicalQuery(request.query ?? []);
    const signer = this.#currentSigner();
    const response = await this.#pool.exchange(
      {
        method: request.method,
        target: query === "" ? path : `${path}?${query}`,
        headers: this.#headersOf(request, { path, query }, signer),
        body: request.body === undefined ? [] : [request.body],
        responseTarget: request.target,
        silenceLimitMs,
      },
      signal,
    );
    if (response.status >= 200 && response.status < 300) return response;
    const failure = failureOf(this.#subjectOf(request), response);
    const rotated = failure.kind === "denied" && this.#hasNewKeys(signer);
    if (isAway(response)) throw new AwayFailure(failure.message);
    if (rotated || isTransient(response)) throw new Failure("remote", failure.message);
    if (failure.kind !== "remote") throw failure;
    throw new PermanentFailure(failure.message);
  }

  close(): void {
    this.#pool.close();
  }

  #headersOf(
    request: S3Request,
    sent: Pick<Signable, "path" | "query">,
    signer: Signer | undefined,
  ) {
    const { location, extraHeaders, userAgent } = this.#options;
    const headers: Record<string, string> = {
      host: location.hostHeader,
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
    return signer.sign({ method, ...sent, headers, payloadSha256 }, Date.now());
  }

  /** A signer keeps the day's key of its credentials: others need another one. */
  #currentSigner(): Signer | undefined {
    const { credentials, location } = this.#options;
    const current = credentials?.current();
    if (current === undefined) return undefined;
    if (this.#signer?.credentials !== current) {
      this.#signer = new Signer(current, location.region);
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
    const { bucket } = this.#options.location;
    const object = request.key === "" ? `bucket ${bucket}` : `s3://${bucket}/${request.key}`;
    return `${request.method} ${object}`;
  }
}

import type { Buffer } from "node:buffer";
import { Failure } from "../base/failure.ts";
import type { Log } from "../base/log.ts";
import { md5, md5InThread } from "../sys/openssl.ts";
import { checksumOf } from "./upload-checksum.ts";
import type { ChecksumKind } from "./upload-checksum.ts";

/** A larger body is summed up beside the event loop: MD5 takes 1.4 ms per MiB. */
const IN_LOOP_BYTES_MAX = 64 * 1024;
/** Half of the pool: a cache on a disk needs threads, too. */
const THREADS_MAX = 4;

type AnswerHeaders = Pick<ReadonlyMap<string, string>, "get">;

/** S3 has stored a body, and whether these are the bytes that were sent is not known. */
export class UnprovenFailure extends Failure {
  constructor(message: string) {
    super("remote", message);
  }
}

interface SentProof {
  readonly checksum: string;
  readonly contentMd5: string | undefined;
}

/** The sums by which S3 verifies one body before it stores it. */
export interface BodyProof {
  /** To be named again when an upload in parts is completed. */
  readonly checksum: string | undefined;
  /** For one attempt to send the body. */
  headers(): Promise<Readonly<Record<string, string>>>;
  /** An UnprovenFailure when S3 has stored the body of the last attempt without verifying it. */
  check(answer: AnswerHeaders): void;
}

/**
 * Sees to it that S3 verifies every body. A server that verifies a checksum repeats it in its
 * answer. Other servers (Scality's cloudserver 8.8) ignore it and store damaged bytes, but
 * enforce Content-MD5. So bodies carry both until an answer has repeated the checksum, and for ever
 * after an answer that has not: an MD5 costs 15 times as much as a CRC-32.
 */
export class UploadIntegrity {
  readonly #kind: ChecksumKind | undefined;
  readonly #log: Log | undefined;
  /** Undefined before the first answer. False is final: servers of one endpoint may differ. */
  #isChecksumVerified: boolean | undefined;
  readonly #threads = new Set<Promise<Buffer>>();

  /** Without a kind nothing is verified. */
  constructor(kind: ChecksumKind | undefined, log: Log | undefined) {
    this.#kind = kind;
    this.#log = log;
  }

  /** `sum`: the checksum of the body, if it is known already. */
  async proofOf(body: Uint8Array, sum?: string): Promise<BodyProof> {
    const kind = this.#kind;
    if (kind === undefined) return UNVERIFIED;
    const checksum = sum ?? (await checksumOf(kind, body));
    let contentMd5: string | undefined;
    return {
      checksum,
      headers: async () => {
        const headers = { [kind.header]: checksum };
        if (this.#isChecksumVerified === true && contentMd5 === undefined) return headers;
        contentMd5 ??= (await this.#md5Of(body)).toString("base64");
        return { ...headers, "content-md5": contentMd5 };
      },
      check: (answer) => this.#check(kind, answer, { checksum, contentMd5 }),
    };
  }

  async #md5Of(body: Uint8Array): Promise<Buffer> {
    if (body.length <= IN_LOOP_BYTES_MAX) return md5(body);
    while (this.#threads.size >= THREADS_MAX) await Promise.race(this.#threads);
    const sum = md5InThread(body);
    this.#threads.add(sum);
    return sum.finally(() => this.#threads.delete(sum));
  }

  #check(
    { header }: ChecksumKind,
    answer: AnswerHeaders,
    { checksum, contentMd5 }: SentProof,
  ): void {
    const repeated = answer.get(header);
    if (repeated === checksum) {
      this.#isChecksumVerified ??= true;
      return;
    }
    if (repeated !== undefined) {
      throw new UnprovenFailure(`stored with ${header} ${repeated}, sent with ${checksum}`);
    }
    if (this.#isChecksumVerified !== false) {
      this.#isChecksumVerified = false;
      this.#log?.info({ header }, "checksums are not verified by S3, uploads carry Content-MD5");
    }
    if (contentMd5 === undefined) throw new UnprovenFailure(`stored without a check of ${header}`);
  }
}

const UNVERIFIED: BodyProof = {
  checksum: undefined,
  headers: async () => ({}),
  check: () => undefined,
};

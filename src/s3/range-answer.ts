import { Failure } from "../base/failure.ts";
import { etagOf } from "./etag.ts";
import type { HttpHead } from "./http-head.ts";
import { PermanentFailure } from "./retry.ts";

/** A GET for the bytes from `fromBytes` up to `endBytes` of one version of an object. */
export interface AskedRange {
  readonly key: string;
  /** The ETag of that version. */
  readonly etag: string;
  /** The size of that version. */
  readonly objectBytes: number;
  readonly fromBytes: number;
  readonly endBytes: number;
}

/**
 * Why a successful answer must not be shown to the reader; undefined when its body is exactly what
 * was asked for. The check does not rely on If-Match: some servers and proxies ignore that header,
 * and a reader would get a mixture of two versions.
 */
export function refusalOf(head: HttpHead, asked: AskedRange): Failure | undefined {
  const { key, etag } = asked;
  const found = etagOf(head.headers.get("etag"));
  if (found === "") return new PermanentFailure(`GET ${key}: the answer has no ETag`);
  if (found !== etagOf(etag)) {
    return new Failure("stale", `GET ${key}: replaced, its ETag is ${found} instead of ${etag}`);
  }
  if (head.status === 206) return partRefusal(head, asked);
  if (head.status === 200) return wholeRefusal(head, asked);
  return new Failure("remote", `GET ${key}: HTTP ${head.status} has no bytes of the object`);
}

function partRefusal(head: HttpHead, asked: AskedRange): Failure | undefined {
  const { key, objectBytes, fromBytes, endBytes } = asked;
  const range = head.headers.get("content-range") ?? "";
  const [, first, last, total] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(range) ?? [];
  if (total !== undefined && Number(total) !== objectBytes) {
    return new Failure("stale", `GET ${key}: ${total} bytes long instead of ${objectBytes}`);
  }
  if (Number(first) === fromBytes && Number(last) === endBytes - 1) return undefined;
  const wanted = `bytes ${fromBytes}-${endBytes - 1}/${objectBytes}`;
  const given = range === "" ? "no Content-Range" : `Content-Range ${range}`;
  return new Failure("remote", `GET ${key}: ${wanted} asked for, ${given} in the answer`);
}

/** A server that ignores `Range` sends the whole object. */
function wholeRefusal(head: HttpHead, asked: AskedRange): Failure | undefined {
  const { key, objectBytes, fromBytes, endBytes } = asked;
  const length = head.headers.get("content-length");
  // A proxy that decodes objects leaves the length out, and the ETag as it was.
  if (length === undefined) return new Failure("remote", `GET ${key}: HTTP 200 without a length`);
  if (Number(length) !== objectBytes) {
    return new Failure("stale", `GET ${key}: ${length} bytes long instead of ${objectBytes}`);
  }
  if (fromBytes === 0 && endBytes === objectBytes) return undefined;
  return new Failure("remote", `GET ${key}: the endpoint ignores Range and sends all of it`);
}

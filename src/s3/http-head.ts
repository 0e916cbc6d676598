import { Failure } from "../base/failure.ts";

export interface HttpHead {
  readonly status: number;
  /** Lower-case names; of a repeated header the last. */
  readonly headers: ReadonlyMap<string, string>;
}

/** Status line and headers, without the empty line that ends them. */
export function parseHead(text: string): HttpHead {
  const [statusLine = "", ...lines] = text.split("\r\n");
  const status = /^HTTP\/1\.[01] (\d{3})(?: |$)/.exec(statusLine)?.[1];
  if (status === undefined) throw new Failure("remote", "the endpoint does not speak HTTP/1.1");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon <= 0) throw new Failure("remote", "a malformed HTTP header from the endpoint");
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  return { status: Number(status), headers };
}

/** How the end of a body is known (RFC 9112, section 6.3). */
export type Framing =
  | { readonly by: "length"; readonly sizeBytes: number }
  | { readonly by: "chunks" }
  | { readonly by: "close" };

export function framingOf(method: string, head: HttpHead): Framing {
  const { status, headers } = head;
  if (method === "HEAD" || status === 204 || status === 304) return { by: "length", sizeBytes: 0 };
  if (headers.get("transfer-encoding")?.toLowerCase() === "chunked") return { by: "chunks" };
  const length = headers.get("content-length");
  if (length === undefined) return { by: "close" };
  if (!/^\d{1,15}$/.test(length)) throw new Failure("remote", `bad content-length: ${length}`);
  return { by: "length", sizeBytes: Number(length) };
}
